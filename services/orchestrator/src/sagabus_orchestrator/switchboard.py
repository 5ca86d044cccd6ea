"""Sets and releases holds: the operator's side of them."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

import asyncpg

from sagabus_core.names import check_key, check_name
from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.holds import SQL
from sagabus_orchestrator.tenants import SQL as TENANTS
from sagabus_store import Database

__all__ = ["HoldState", "Switchboard", "Target"]

_ACTOR_MAX: Final = 128
_REASON_MAX: Final = 900
"""Less than an operation takes: each saga is told with a few words before it."""
Target: TypeAlias = Literal["workflow", "participant"]


@dataclass(frozen=True, slots=True)
class HoldState:
    """A hold and how many sagas it has paused; released ones are listed until those go on."""

    id: str
    target: str
    name: str
    tenant: str
    actor: str
    reason: str
    set_at: datetime
    released_at: datetime | None
    sagas: int


class Switchboard:
    """The operator's side of holds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._trail = Trail(database)

    async def set(self, target: Target, name: str, by: By, tenant: str = "") -> HoldState:
        """Set a hold; the same again changes nothing. Once this returns, nothing held is issued.

        Waits for the transactions that decide at this moment. Raises `Refused`
        (`invalid_operation`) without a reason.
        """
        act = _act("set", target, name, tenant, by)
        async with self._trail.refusals_of(act):
            _check(name, tenant, by)
            async with self._database.transaction() as conn:
                await conn.execute(TENANTS["stop_deciding"])
                values = (str(uuid.uuid4()), target, name, tenant, by.actor, by.reason)
                if await conn.fetchval(SQL["set_hold"], *values) is not None:
                    await record(conn, act, f"{target} {name} is held (hold {values[0]})")
        return await self._get(target, name, tenant)

    async def release(self, target: Target, name: str, by: By, tenant: str = "") -> None:
        """Release a hold; the sagas that it paused go on one after another (`releaser.py`).

        Raises `NotFound` if no such hold is set.
        """
        act = _act("release", target, name, tenant, by)
        async with self._trail.refusals_of(act):
            _check(name, tenant, by)
            async with self._database.transaction() as conn:
                values = (target, name, tenant, by.actor, by.reason)
                hold_id = await conn.fetchval(SQL["release_hold"], *values)
                if hold_id is None:
                    raise NotFound("not_found", f"no hold of {target} {name} is set")
                await record(conn, act, f"{target} {name} is released (hold {hold_id})")

    async def list(self) -> list[HoldState]:
        """Return every hold that is set, and released ones whose sagas have not all gone on."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["list_holds"])
        return [_state(row) for row in rows]

    async def _get(self, target: str, name: str, tenant: str) -> HoldState:
        place = (target, name, tenant)
        for hold in await self.list():
            if (hold.target, hold.name, hold.tenant) == place and hold.released_at is None:
                return hold
        raise NotFound("not_found", f"the hold of {target} {name} was released meanwhile")


def _state(row: asyncpg.Record) -> HoldState:
    return HoldState(**{**dict(row), "id": str(row["id"])})


def _check(name: str, tenant: str, by: By) -> None:
    check_name(name, "name")
    if tenant:
        check_key(tenant, "tenant")
    if not by.reason.strip() or not by.actor.strip():
        raise Refused("invalid_operation", "say who holds or releases it, and why")
    # What is longer could be written here, and would be refused of every saga that is to go on.
    if len(by.reason) > _REASON_MAX or len(by.actor) > _ACTOR_MAX or not by.actor.isprintable():
        raise Refused(
            "invalid_operation",
            f"a reason has up to {_REASON_MAX} characters, an actor {_ACTOR_MAX} printable ones",
        )


def _act(verb: str, target: str, name: str, tenant: str, by: By) -> Act:
    return Act(
        kind=f"pause:{verb}",
        by=by,
        subject=f"{target} {name}",
        permission="pause:set",
        tenant=tenant,
        workflow=name if target == "workflow" else "",
    )
