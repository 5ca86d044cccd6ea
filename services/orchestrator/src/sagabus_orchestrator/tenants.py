"""Quotas of tenants, set by an operator."""

from __future__ import annotations

from sagabus_core.names import check_key
from sagabus_orchestrator.audit.trail import LOCAL, Act, By, Trail, record
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.quotas import Quota
from sagabus_store import Database, Queries

__all__ = ["Tenants"]

SQL = Queries("sagabus_orchestrator", "sql/tenants.sql")


class Tenants:
    """Limits how many sagas of a tenant may run at once; safe while replicas decide."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._trail = Trail(database)

    async def set_quota(self, tenant: str, max_active: int, by: By = LOCAL) -> Quota:
        """Set a tenant's limit and count its running sagas anew; the same again changes nothing.

        A limit below what runs ends nothing: it only lets nothing start. Raises `Refused`
        (`invalid_quota`).
        """
        check_key(tenant, "tenant")
        act = _act(tenant, by)
        async with self._trail.refusals_of(act):
            if max_active < 0:
                raise Refused("invalid_quota", "the limit must be 0 or more")
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
        """Let a tenant start as many as it likes; returns whether it had a limit."""
        async with self._database.transaction() as conn:
            removed = await conn.fetchval(SQL["remove_quota"], tenant) is not None
            if removed:
                await record(conn, _act(tenant, by), "no limit of running sagas")
        return removed


def _act(tenant: str, by: By) -> Act:
    return Act(kind="quota:set", by=by, subject=tenant, tenant=tenant)
