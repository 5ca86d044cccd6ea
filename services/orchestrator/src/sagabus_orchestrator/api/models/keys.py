"""API keys as callers see them."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints

from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKey,
    KeyRequest,
    KeyText,
    Permission,
    Role,
    TenantScope,
)
from sagabus_orchestrator.api.identity.keys import MAX_LIFE, NAME_PATTERN
from sagabus_orchestrator.api.models.fields import Answer, InstantText, Key, Question, at

__all__ = [
    "KeyAnswer",
    "KeyList",
    "KeyListQuestion",
    "KeyMade",
    "KeyName",
    "KeyQuestion",
    "RevokeQuestion",
]

KeyName: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
"""Name of a key: audit facts say `key:NAME`."""


class KeyQuestion(Question):
    """A key to be made: what it may do, for whom, and for how long."""

    name: KeyName
    """Used once, for ever."""
    roles: list[Role] = Field(default_factory=list, max_length=20)
    permissions: list[Permission] = Field(default_factory=list, max_length=100)
    """What it may do beyond its roles."""
    tenants: list[Key] = Field(default_factory=list, max_length=1_000)
    all_tenants: bool = False
    """For every tenant, instead of those named: takes the right to all of them."""
    lives_days: int | None = Field(default=90, ge=1, le=MAX_LIFE.days)
    """How long it counts; null: until it is revoked."""
    reason: str = Field(default="", max_length=1_000)
    """Kept in the audit."""

    def request(self) -> KeyRequest:
        """Return what is asked for."""
        return KeyRequest(
            name=self.name,
            tenants=ALL_TENANTS if self.all_tenants else TenantScope(frozenset(self.tenants)),
            roles=frozenset(self.roles),
            permissions=frozenset(self.permissions),
            lives=None if self.lives_days is None else timedelta(days=self.lives_days),
        )


class KeyListQuestion(Question):
    """How many, and from where on."""

    limit: int = Field(default=100, ge=1, le=1_000)
    cursor: KeyName | None = None
    """Goes on after a page: its `next_cursor`."""


class RevokeQuestion(Question):
    """Why."""

    reason: str = Field(default="", max_length=1_000)
    """Kept in the audit."""


class KeyAnswer(Answer):
    """A key without its secret."""

    id: str
    """The part of the key that is no secret: `sgb_ID_...`."""
    name: str
    roles: list[str]
    permissions: list[str]
    tenants: list[str]
    all_tenants: bool
    created_at: InstantText
    created_by: str
    expires_at: InstantText | None
    """Null: it counts until it is revoked."""
    last_used_at: InstantText | None
    """Written at most once an hour."""
    revoked_at: InstantText | None
    revoked_by: str | None

    @classmethod
    def of(cls, key: ApiKey) -> KeyAnswer:
        """Return a key as callers see it."""
        return cls(**_fields(key))


class KeyMade(KeyAnswer):
    """A new key, with the key itself."""

    key: str
    """Shown this once: nobody can learn it again. Send it as `X-API-Key`."""

    @classmethod
    def made(cls, key: ApiKey, text: KeyText) -> KeyMade:
        """Return a new key with its text."""
        return cls(**_fields(key), key=text.reveal())


class KeyList(Answer):
    """Keys by name, those that count no longer too."""

    keys: list[KeyAnswer]
    next_cursor: str | None


def _fields(key: ApiKey) -> dict[str, object]:
    def instant(name: str) -> str | None:
        found = getattr(key, name)
        return None if found is None else at(found)

    return {
        "id": key.id,
        "name": key.name,
        "roles": list(key.roles),
        "permissions": list(key.permissions),
        "tenants": sorted(key.tenants.names),
        "all_tenants": key.tenants.everyone,
        "created_at": instant("created_at"),
        "created_by": key.created_by,
        "expires_at": instant("expires_at"),
        "last_used_at": instant("last_used_at"),
        "revoked_at": instant("revoked_at"),
        "revoked_by": key.revoked_by,
    }
