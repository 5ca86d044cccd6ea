"""API keys of machines: made once, shown once, listed and revoked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import asyncpg

from sagabus_core.names import check_key
from sagabus_orchestrator.api.identity.errors import PermissionDenied
from sagabus_orchestrator.api.identity.key_text import KeyText, hash_secret, new_key_text
from sagabus_orchestrator.api.identity.permissions import Permission, Role, permissions_of
from sagabus_orchestrator.api.identity.principal import Principal, TenantScope
from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_store import Database, Queries

__all__ = ["MAX_LIFE", "NAME_PATTERN", "SQL", "ApiKey", "ApiKeys", "KeyRequest"]

SQL = Queries("sagabus_orchestrator", "sql/api_keys.sql")
MAX_LIFE: Final = timedelta(days=3_650)
NAME_PATTERN: Final = r"[a-z0-9][a-z0-9.-]{0,62}"
_NAME: Final = re.compile(NAME_PATTERN)


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A key to be made. `lives` None: until it is revoked."""

    name: str
    tenants: TenantScope
    roles: frozenset[Role] = frozenset()
    permissions: frozenset[Permission] = frozenset()
    lives: timedelta | None = None

    @property
    def granted(self) -> frozenset[Permission]:
        """All that the key may do."""
        return self.permissions | permissions_of(self.roles)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is kept: everything but the secret."""

    id: str
    name: str
    roles: tuple[str, ...]
    permissions: tuple[str, ...]
    tenants: TenantScope
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    revoked_by: str | None


class ApiKeys:
    """Makes, lists and revokes keys, within what the one who asks may do."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._trail = Trail(database)

    async def create(
        self, request: KeyRequest, by: Principal, reason: str = ""
    ) -> tuple[ApiKey, KeyText]:
        """Keep a new key and return it with its secret, which nobody can learn again.

        Names are used once, for ever: they are the actor of audit facts. Raises `Refused`
        (`invalid_key_request`, `key_name_taken`) and `PermissionDenied`, also for a key that could
        do more than the one who makes it.
        """
        by.require(Permission.KEY_CREATE)
        _check_within(request, by)
        acts = _acts(Permission.KEY_CREATE, request.name, request.tenants, By(by.actor, reason))
        text = new_key_text()
        async with self._trail.refusals_of(*acts):
            _check(request)
            async with self._database.transaction() as conn:
                row = await conn.fetchrow(
                    SQL["insert_key"],
                    text.id,
                    request.name,
                    hash_secret(text),
                    sorted(request.roles),
                    sorted(request.permissions),
                    sorted(request.tenants.names),
                    request.tenants.everyone,
                    by.actor,
                    request.lives,
                )
                if row is None:
                    detail = f"a key named {request.name!r} exists or existed: choose another name"
                    raise Refused("key_name_taken", detail)
                key = _key_of(row)
                await record(conn, acts, _said(key))
        return key, text

    async def list(self, by: Principal, limit: int, behind: str = "") -> list[ApiKey]:
        """Return at most `limit` keys of the caller's tenants by name, those behind a name.

        Expired and revoked ones are among them.
        """
        by.require(Permission.KEY_READ)
        scope = by.tenants.as_filter()
        async with self._database.connection() as conn:
            return list(map(_key_of, await conn.fetch(SQL["list_keys"], scope, behind, limit)))

    async def revoke(self, name: str, by: Principal, reason: str = "") -> ApiKey:
        """Let a key count no longer, in every process once its cache's bound has passed.

        A second time changes nothing. Raises `NotFound`, also for a key of other tenants.
        """
        by.require(Permission.KEY_REVOKE)
        scope, who = by.tenants.as_filter(), By(by.actor, reason)
        # A key that is not there is nobody's: the refusal shows to whoever asked.
        async with self._trail.refusals_of(*_acts(Permission.KEY_REVOKE, name, by.tenants, who)):
            async with self._database.transaction() as conn:
                row = await conn.fetchrow(SQL["revoke_key"], name, scope, by.actor)
                if row is not None:
                    key = _key_of(row)
                    acts = _acts(Permission.KEY_REVOKE, name, key.tenants, who)
                    await record(conn, acts, f"{name} counts no longer")
                    return key
                row = await conn.fetchrow(SQL["find_named"], name, scope)
            if row is None:
                raise NotFound("not_found", f"there is no key {name!r}")
            return _key_of(row)


def _acts(kind: Permission, name: str, tenants: TenantScope, by: By) -> tuple[Act, ...]:
    return Act(kind=kind, by=by, subject=name).of_each(() if tenants.everyone else tenants.names)


def _said(key: ApiKey) -> str:
    """Return what the audit keeps of a new key: all but its secret, and no tenant to another."""
    tenants = " for all tenants" if key.tenants.everyone else ""
    until = f"until {key.expires_at:%Y-%m-%d %H:%M}" if key.expires_at else "until it is revoked"
    return f"{', '.join((*key.roles, *key.permissions))}{tenants}, {until}"


def _check(request: KeyRequest) -> None:
    if _NAME.fullmatch(request.name) is None:
        raise Refused(
            "invalid_key_request",
            "the name takes 1 to 63 lower-case letters, digits, dots and hyphens",
        )
    if not request.granted:
        raise Refused("invalid_key_request", "the key could do nothing: give it a role")
    if not request.tenants.everyone and not request.tenants.names:
        raise Refused("invalid_key_request", "the key could see nothing: give it a tenant")
    if request.lives is not None and not timedelta() < request.lives <= MAX_LIFE:
        raise Refused("invalid_key_request", f"a key lives for 1 to {MAX_LIFE.days} days")
    for tenant in request.tenants.names:
        check_key(tenant, "tenant")


def _check_within(request: KeyRequest, by: Principal) -> None:
    _require_held(request.granted, by)
    _require_shorter(request, by)
    if by.tenants.everyone:
        return
    if request.tenants.everyone:
        by.require_all_tenants()
    for tenant in request.tenants.names:
        by.require_tenant(tenant)


def _require_held(permissions: Iterable[Permission], by: Principal) -> None:
    beyond = sorted(set(permissions) - by.permissions)
    if beyond:
        raise PermissionDenied(
            "permission_denied", f"you may not give away what you lack: {', '.join(beyond)}"
        )


def _require_shorter(request: KeyRequest, by: Principal) -> None:
    """Refuse a key that would outlive the one that makes it: its thief could renew it for ever."""
    if by.until is None:
        return
    left = by.until - datetime.now(UTC)
    if request.lives is None or request.lives > left:
        raise PermissionDenied(
            "permission_denied",
            f"a key may not outlive the one that makes it, which has {left.days} whole days left",
        )


def _key_of(row: asyncpg.Record) -> ApiKey:
    fields: dict[str, Any] = dict(row)
    everyone, names = fields.pop("all_tenants"), fields.pop("tenants")
    roles, permissions = tuple(fields.pop("roles")), tuple(fields.pop("permissions"))
    scope = TenantScope(frozenset(names), everyone)
    return ApiKey(**fields, roles=roles, permissions=permissions, tenants=scope)
