"""Finds out whose API key a request carries."""

from __future__ import annotations

import hmac
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

import asyncpg

from sagabus_orchestrator.api.identity.errors import Unauthenticated
from sagabus_orchestrator.api.identity.key_text import hash_secret, read_key_text
from sagabus_orchestrator.api.identity.keys import SQL
from sagabus_orchestrator.api.identity.permissions import Permission, permissions_of
from sagabus_orchestrator.api.identity.principal import KEY_ACTOR, Principal, TenantScope
from sagabus_runtime import get_logger
from sagabus_store import Database

__all__ = ["KeyVerifier", "principal_of"]

log = get_logger()

CACHED_MAX: Final = 10_000
_NOBODY: Final = bytes(32)
_TOLD: Final[Mapping[str, str]] = MappingProxyType(
    {
        "key_expired": "this API key is genuine and too old: it has expired",
        "key_revoked": "this API key is genuine and was revoked",
    }
)


@dataclass(frozen=True, slots=True)
class _Found:
    """What the database said about an id, and until when that is believed."""

    secret_sha256: bytes
    principal: Principal | None
    trouble: str
    until: float
    use_unnoted: bool = False


class KeyVerifier:
    """Looks keys up, at most once per `cache_ms` each. Safe for many requests at once."""

    def __init__(
        self,
        database: Database,
        *,
        cache_ms: int = 5_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._cache_s = cache_ms / 1000
        self._clock = clock
        self._cached: OrderedDict[str, _Found] = OrderedDict()

    async def verify(self, text: str) -> Principal:
        """Return the caller.

        Raises `Unauthenticated`: `key_expired` and `key_revoked` tell only whoever proves to hold
        the secret, everybody else hears `key_invalid`. Raises `StoreUnavailable`.
        """
        found = await self.judge(text)
        if isinstance(found, Principal):
            return found
        key = read_key_text(text)
        log.info("identity.refused", reason=found, key=key.id if key else None)
        if found in _TOLD:
            raise Unauthenticated(found, _TOLD[found])
        raise Unauthenticated("key_invalid", "the API key does not count here")

    async def judge(self, text: str) -> Principal | str:
        """Return the caller, or in a word why the key does not count. Raises `StoreUnavailable`."""
        key = read_key_text(text)
        if key is None:
            return "key_malformed"
        found = self._remembered(key.id) or await self._look_up(key.id)
        if not hmac.compare_digest(found.secret_sha256, hash_secret(key)):
            return "key_unknown" if found.secret_sha256 is _NOBODY else "key_wrong"
        if found.principal is None:
            return found.trouble
        if found.use_unnoted:
            await self._note_use(key.id, found)
        return found.principal

    def _remembered(self, key_id: str) -> _Found | None:
        found = self._cached.get(key_id)
        return found if found is not None and found.until > self._clock() else None

    async def _look_up(self, key_id: str) -> _Found:
        asked_at = self._clock()
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["find_key"], key_id)
        found = _found(row, asked_at + self._cache_s)
        self._cached[key_id] = found
        self._cached.move_to_end(key_id)
        if len(self._cached) > CACHED_MAX:
            self._cached.popitem(last=False)
        return found

    async def _note_use(self, key_id: str, found: _Found) -> None:
        self._cached[key_id] = replace(found, use_unnoted=False)
        async with self._database.connection() as conn:
            await conn.execute(SQL["note_use"], key_id)


def _found(row: asyncpg.Record | None, until: float) -> _Found:
    if row is None:
        return _Found(_NOBODY, None, "key_unknown", until)
    if row["revoked"] or row["expired"]:
        trouble = "key_revoked" if row["revoked"] else "key_expired"
        return _Found(row["secret_sha256"], None, trouble, until)
    return _Found(row["secret_sha256"], principal_of(row), "", until, row["use_unnoted"])


def principal_of(row: asyncpg.Record) -> Principal:
    """Return the caller that the bearer of a key is, by its row."""
    known = {permission.value: permission for permission in Permission}
    extra = {known[name] for name in row["permissions"] if name in known}
    return Principal(
        actor=f"{KEY_ACTOR}{row['name']}",
        permissions=permissions_of(row["roles"]) | extra,
        tenants=TenantScope(frozenset(row["tenants"]), row["all_tenants"]),
        until=row["expires_at"],
    )
