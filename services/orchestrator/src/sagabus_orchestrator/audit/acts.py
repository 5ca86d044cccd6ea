"""What the audit calls the management operations: kinds and permissions as one vocabulary. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from sagabus_core.engine import ManagementEvent, OperationKind
from sagabus_orchestrator.audit.trail import Act, By
from sagabus_orchestrator.catalog import DefinitionRef

__all__ = ["Permit", "definition_act", "operation_act", "permission_text"]

Permit: TypeAlias = Callable[[frozenset[str]], None]
"""Called under the saga's lock with the engine's names of the permissions that an operation takes;
raises to refuse. For `retry` they depend on what would be issued again."""

_MANUAL_CLOSE: Final = "saga:close"


def operation_act(tenant: str, saga_id: str, event: ManagementEvent) -> Act:
    """Return a management operation on one saga as the audit names it."""
    operation = event.operation
    expected = operation.expected_revision
    return Act(
        kind=_named(event.kind),
        by=By(operation.actor, operation.reason, operation.operation_id),
        subject=saga_id,
        tenant=tenant,
        saga_id=saga_id,
        expected=None if expected is None else str(expected),
    )


def definition_act(verb: str, ref: DefinitionRef, by: By) -> Act:
    """Return a change of a definition as the audit names it."""
    return Act(
        kind=f"definition:{verb}",
        by=by,
        subject=f"{ref.workflow} {ref.version}",
        tenant=ref.scope,
        workflow=ref.workflow,
    )


def permission_text(names: Iterable[str]) -> str:
    """Return the engine's names of permissions as the audit writes them, sorted."""
    return " ".join(sorted(_named(name) for name in names))


def _named(name: str) -> str:
    if name == OperationKind.MANUAL_CLOSE:
        return _MANUAL_CLOSE
    return f"saga:{name.replace('_', '-')}"
