"""API keys of machines: made once, shown once, listed and revoked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
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

__all__ = ["SQL", "ApiKey", "ApiKeys", "KeyRequest"]

SQL = Queries("sagabus_orchestrator", "sql/api_keys.sql")
MAX_LIFE: Final = timedelta(days=3_650)
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")


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
        acts = _acts(Permission.KEY_CREATE, request.name, request.tenants, By(by.actor, reason))
        async with self._trail.refusals_of(*acts):
            by.require(Permission.KEY_CREATE)
            _check(request)
            _check_within(request, by)
            return await self._create(request, by, acts)

    async def _create(
        self, request: KeyRequest, by: Principal, acts: Iterable[Act]
    ) -> tuple[ApiKey, KeyText]:
        text = new_key_text()
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
                raise Refused("key_name_taken", f"a key named {request.name!r} exists or existed")
            granted = ", ".join(sorted({*request.roles, *request.permissions}))
            lives = f"for {request.lives.days} days" if request.lives else "until revoked"
            await record(conn, acts, f"{granted}, {lives}")
        return _key_of(row), text

    async def list(self, by: Principal) -> list[ApiKey]:
        """Return the keys of the caller's tenants, by name; expired and revoked ones too."""
        by.require(Permission.KEY_READ)
        async with self._database.connection() as conn:
            return [
                _key_of(row) for row in await conn.fetch(SQL["list_keys"], by.tenants.as_filter())
            ]

    async def revoke(self, name: str, by: Principal, reason: str = "") -> ApiKey:
        """Let a key count no longer: at once here, in every replica after its cache's bound.

        A second time changes nothing. Raises `NotFound`, also for a key of other tenants.
        """
        why, scope = By(by.actor, reason), by.tenants.as_filter()
        async with self._trail.refusals_of(*_acts(Permission.KEY_REVOKE, name, by.tenants, why)):
            by.require(Permission.KEY_REVOKE)
            async with self._database.transaction() as conn:
                before = await conn.fetchrow(SQL["lock_key"], name, scope)
                row = await conn.fetchrow(SQL["revoke_key"], name, scope, by.actor)
                if before is None or row is None:
                    raise NotFound("not_found", f"there is no key {name!r}")
                key = _key_of(row)
                if before["revoked_at"] is None:
                    acts = _acts(Permission.KEY_REVOKE, name, key.tenants, why)
                    await record(conn, acts, "revoked")
        return key


def _acts(kind: Permission, name: str, tenants: TenantScope, by: By) -> tuple[Act, ...]:
    act = Act(kind=kind, by=by, subject=f"key:{name}")
    return act.of_each(() if tenants.everyone else tenants.names)


def _check(request: KeyRequest) -> None:
    if _NAME.fullmatch(request.name) is None:
        raise Refused(
            "invalid_key_request", "the name takes lower-case letters, digits, dots and hyphens"
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


def _key_of(row: asyncpg.Record) -> ApiKey:
    fields: dict[str, Any] = dict(row)
    everyone, names = fields.pop("all_tenants"), fields.pop("tenants")
    roles, permissions = tuple(fields.pop("roles")), tuple(fields.pop("permissions"))
    scope = TenantScope(frozenset(names), everyone)
    return ApiKey(**fields, roles=roles, permissions=permissions, tenants=scope)
