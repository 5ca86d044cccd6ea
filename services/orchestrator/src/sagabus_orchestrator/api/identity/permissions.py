"""What can be permitted: one permission per operation, and the roles that bundle them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from sagabus_core.engine import OperationKind

__all__ = [
    "ENGINE_PERMISSIONS",
    "OPERATION_PERMISSIONS",
    "ROLES",
    "Permission",
    "Role",
    "permissions_of",
]


class Permission(StrEnum):
    """The right to one operation, within the tenants of whoever holds it.

    The text is what `sagabus keys create --grant` and audit facts say.
    """

    SAGA_START = "saga:start"
    SAGA_READ = "saga:read"
    """One saga: state, plan, preview, `why`, its lifecycle events."""
    SAGA_LIST = "saga:list"
    """Pages and lifecycle events over many sagas."""
    SAGA_PAUSE = "saga:pause"
    SAGA_RESUME = "saga:resume"
    SAGA_CANCEL = "saga:cancel"
    SAGA_RETRY_STEP = "saga:retry-step"
    SAGA_RETRY_RESOLUTION = "saga:retry-resolution"
    SAGA_RETRY_COMPENSATION = "saga:retry-compensation"
    SAGA_RECORD_OUTCOME = "saga:record-outcome"
    SAGA_CLOSE = "saga:close"
    BULK_RUN = "bulk:run"
    """An operation on every saga that a filter names; takes the permission of the operation too."""
    BULK_READ = "bulk:read"
    PAUSE_READ = "pause:read"
    PAUSE_SET = "pause:set"
    """Hold or release a whole workflow or participant."""
    DEFINITION_READ = "definition:read"
    DEFINITION_PUBLISH = "definition:publish"
    DEFINITION_ACTIVATE = "definition:activate"
    DEFINITION_DEPRECATE = "definition:deprecate"
    DEFINITION_RETIRE = "definition:retire"
    DLT_READ = "dlt:read"
    DLT_REDRIVE = "dlt:redrive"
    DLT_DISCARD = "dlt:discard"
    JOURNAL_READ = "journal:read"
    AUDIT_READ = "audit:read"
    QUOTA_READ = "quota:read"
    QUOTA_SET = "quota:set"
    """Counts for whoever holds all tenants alone: whoever is limited does not lift the limit."""
    KEY_READ = "key:read"
    KEY_CREATE = "key:create"
    KEY_REVOKE = "key:revoke"


class Role(StrEnum):
    """A named set of permissions; tokens and API keys carry roles by these names."""

    VIEWER = "viewer"
    STARTER = "starter"
    OPERATOR = "operator"
    DEVELOPER = "developer"
    ADMIN = "admin"


_VIEWER: Final = frozenset(
    {
        Permission.SAGA_READ,
        Permission.SAGA_LIST,
        Permission.JOURNAL_READ,
        Permission.DEFINITION_READ,
        Permission.PAUSE_READ,
        Permission.BULK_READ,
        Permission.DLT_READ,
        Permission.QUOTA_READ,
    }
)
_STARTER: Final = frozenset({Permission.SAGA_START, Permission.SAGA_READ})
_OPERATOR: Final = _VIEWER | {
    Permission.AUDIT_READ,
    Permission.SAGA_PAUSE,
    Permission.SAGA_RESUME,
    Permission.SAGA_CANCEL,
    Permission.SAGA_RETRY_STEP,
    Permission.SAGA_RETRY_RESOLUTION,
    Permission.SAGA_RETRY_COMPENSATION,
    Permission.SAGA_RECORD_OUTCOME,
    Permission.BULK_RUN,
    Permission.PAUSE_SET,
    Permission.DLT_REDRIVE,
    Permission.DLT_DISCARD,
}
_DEVELOPER: Final = _VIEWER | {
    Permission.SAGA_START,
    Permission.DEFINITION_PUBLISH,
    Permission.DEFINITION_ACTIVATE,
    Permission.DEFINITION_DEPRECATE,
    Permission.DEFINITION_RETIRE,
}

ROLES: Final[Mapping[Role, frozenset[Permission]]] = MappingProxyType(
    {
        Role.VIEWER: _VIEWER,
        Role.STARTER: _STARTER,
        Role.OPERATOR: _OPERATOR,
        Role.DEVELOPER: _DEVELOPER,
        Role.ADMIN: frozenset(Permission),
    }
)
"""Closing by hand, quotas and keys are the admin's; whoever repairs does not also deploy."""

_RETRIES: Final = frozenset(
    {
        Permission.SAGA_RETRY_STEP,
        Permission.SAGA_RETRY_RESOLUTION,
        Permission.SAGA_RETRY_COMPENSATION,
    }
)

OPERATION_PERMISSIONS: Final[Mapping[OperationKind, frozenset[Permission]]] = MappingProxyType(
    {
        OperationKind.PAUSE: frozenset({Permission.SAGA_PAUSE}),
        OperationKind.RESUME: frozenset({Permission.SAGA_RESUME}),
        OperationKind.CANCEL: frozenset({Permission.SAGA_CANCEL}),
        OperationKind.RETRY: _RETRIES,
        OperationKind.RECORD_OUTCOME: frozenset({Permission.SAGA_RECORD_OUTCOME}),
        OperationKind.MANUAL_CLOSE: frozenset({Permission.SAGA_CLOSE}),
    }
)
"""Any one of these opens the door of an operation, before anybody looks whether the saga exists.

For `retry` the saga then decides which of them it takes: see `ENGINE_PERMISSIONS`."""

ENGINE_PERMISSIONS: Final[Mapping[str, Permission]] = MappingProxyType(
    {
        "pause": Permission.SAGA_PAUSE,
        "resume": Permission.SAGA_RESUME,
        "cancel": Permission.SAGA_CANCEL,
        "retry_step": Permission.SAGA_RETRY_STEP,
        "retry_resolution": Permission.SAGA_RETRY_RESOLUTION,
        "retry_compensation": Permission.SAGA_RETRY_COMPENSATION,
        "record_outcome": Permission.SAGA_RECORD_OUTCOME,
        "manual_close": Permission.SAGA_CLOSE,
    }
)
"""The permission behind each name that `sagabus_core.engine.required_permissions` returns."""


def permissions_of(roles: Iterable[str]) -> frozenset[Permission]:
    """Return what the roles permit together; a name that is no role of ours permits nothing."""
    known = {role.value: permissions for role, permissions in ROLES.items()}
    return frozenset().union(*(known.get(role, frozenset()) for role in roles))
