"""Limits of tenants, set by an operator: running sagas, starts and operations in a window."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from sagabus_core.names import check_key
from sagabus_orchestrator.audit.trail import LOCAL, Act, By, Trail, record
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.quotas import Action, Quota, Rate
from sagabus_orchestrator.rows import instant
from sagabus_store import Database, Queries, now_ms

__all__ = ["DAY_MS", "MINUTE_MS", "Limit", "Tenants"]

SQL = Queries("sagabus_orchestrator", "sql/tenants.sql")
MINUTE_MS: Final = 60_000
DAY_MS: Final = 86_400_000
_MOST: Final = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit of a tenant and its use now: of `running` sagas, or of `start` or `operation`.

    `window_ms` and `resets_at` are None for running sagas: only their ends make room.
    """

    tenant: str
    action: str
    most: int
    used: int
    window_ms: int | None
    resets_at: datetime | None


class Tenants:
    """Limits what a tenant may do; safe while replicas decide."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._trail = Trail(database)

    async def set_quota(self, tenant: str, max_active: int, by: By = LOCAL) -> Quota:
        """Set a tenant's limit and count its running sagas anew; the same again changes nothing.

        A limit below what runs ends nothing: it only lets nothing start. Raises `Refused`
        (`invalid_quota`).
        """
        act = _act(tenant, by)
        async with self._trail.refusals_of(act):
            _check_limit(tenant, max_active)
            return await self._set(tenant, max_active, act)

    async def _set(self, tenant: str, max_active: int, act: Act) -> Quota:
        async with self._database.transaction() as conn:
            # Every transaction that decides holds a weaker lock of this table until its commit:
            # without this one, its starts would be missing from the count.
            await conn.execute(SQL["stop_deciding"])
            row = await conn.fetchrow(SQL["set_quota"], tenant, max_active)
            if row is None:
                raise Refused("invalid_quota", f"the quota of {tenant!r} was not set")
            await record(conn, act, f"at most {max_active} running sagas")
        return Quota(row["max_active"], row["active"])

    async def remove_quota(self, tenant: str, by: By = LOCAL) -> bool:
        """Let a tenant run as many sagas as it likes; returns whether it had a limit."""
        act = _act(tenant, by)
        async with self._trail.refusals_of(act):
            check_key(tenant, "tenant")
            async with self._database.transaction() as conn:
                removed = await conn.fetchval(SQL["remove_quota"], tenant) is not None
                if removed:
                    await record(conn, act, "no limit of running sagas")
        return removed

    async def set_rate(
        self,
        tenant: str,
        action: Action,
        most: int,
        window_ms: int = MINUTE_MS,
        by: By = LOCAL,
    ) -> None:
        """Let a tenant start sagas, or do operations, at most `most` times in each window.

        Windows are those of the database clock, counted from the epoch. Batches under way when a
        first rate is set are not counted. Raises `Refused` (`invalid_quota`).
        """
        act = _act(tenant, by)
        async with self._trail.refusals_of(act):
            _check_limit(tenant, most)
            if not 1_000 <= window_ms <= DAY_MS:
                raise Refused("invalid_quota", "a window has a second to a day")
            async with self._database.transaction() as conn:
                await conn.execute(SQL["set_rate"], tenant, action, most, window_ms)
                await record(conn, act, f"at most {most} of {action} in {window_ms} ms")

    async def remove_rate(self, tenant: str, action: Action, by: By = LOCAL) -> bool:
        """Let a tenant act as often as it likes; returns whether it was limited."""
        act = _act(tenant, by)
        async with self._trail.refusals_of(act):
            check_key(tenant, "tenant")
            async with self._database.transaction() as conn:
                removed = await conn.fetchval(SQL["remove_rate"], tenant, action) is not None
                if removed:
                    await record(conn, act, f"no limit of {action}")
        return removed

    async def limits(
        self, tenants: Sequence[str] | None = None, behind: str = "", limit: int = 1_000
    ) -> list[Limit]:
        """Return limits in tenant order with their use now: of at most `limit` tenants.

        Those of `tenants` (None: all) behind a name. A tenant without a limit is left out.
        """
        scope = None if tenants is None else list(tenants)
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["limits"], scope, behind, limit)
            now = await now_ms(conn)
        return [_limit(row, now) for row in rows]


def _limit(row: asyncpg.Record, now: int) -> Limit:
    place = (row["tenant"], row["action"], row["most"])
    if not row["window_ms"]:
        return Limit(*place, row["used"], None, None)
    rate = Rate(row["most"], row["window_ms"], row["window_no"], row["used"])
    resets_at = instant((rate.window_at(now) + 1) * rate.window_ms)
    return Limit(*place, rate.used_at(now), rate.window_ms, resets_at)


def _check_limit(tenant: str, most: int) -> None:
    check_key(tenant, "tenant")
    if not 0 <= most <= _MOST:
        raise Refused("invalid_quota", "the limit must be 0 or more")


def _act(tenant: str, by: By) -> Act:
    return Act(kind="quota:set", by=by, subject=tenant, tenant=tenant)
