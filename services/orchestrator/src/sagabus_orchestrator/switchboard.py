"""Sets and releases holds, and lets go what they paused."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

import asyncpg

from sagabus_core.engine import Operation, Resume
from sagabus_core.errors import SagabusError
from sagabus_core.names import check_key, check_name
from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.errors import Held, NotFound, Refused
from sagabus_orchestrator.holds import SQL
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.rows import instant
from sagabus_orchestrator.tenants import SQL as TENANTS
from sagabus_orchestrator.upkeep.jobs import Jobs
from sagabus_runtime import Pulse
from sagabus_store import Database, StoreUnavailable

__all__ = ["JOB", "HoldState", "Releaser", "Switchboard", "Target"]

JOB: Final = "holds"
_FIRST: Final = "00000000-0000-0000-0000-000000000000"
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
                    await record(conn, act, f"{target} {name} is held")
        return await self._get(target, name, tenant)

    async def release(self, target: Target, name: str, by: By, tenant: str = "") -> None:
        """Release a hold; the sagas that it paused go on one after another (see `Releaser`).

        Raises `NotFound` if no such hold is set.
        """
        act = _act("release", target, name, tenant, by)
        async with self._trail.refusals_of(act):
            _check(name, tenant, by)
            async with self._database.transaction() as conn:
                values = (target, name, tenant, by.actor, by.reason)
                if await conn.fetchval(SQL["release_hold"], *values) is None:
                    raise NotFound("not_found", f"no hold of {target} {name} is set")
                await record(conn, act, f"{target} {name} is released")

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


class Releaser:
    """Resumes what released holds paused: one replica at a time, each saga once."""

    BATCH: Final = 50
    TICK_MS: Final = 1_000

    def __init__(self, database: Database, operations: Operations) -> None:
        self._database = database
        self._operations = operations
        self._jobs = Jobs(database)
        self._behind = _FIRST

    async def run(self, pulse: Pulse) -> None:
        """Work until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.tick()
            pulse.beat()
            await pulse.pause(self.TICK_MS)

    async def tick(self) -> int:
        """Let go a batch, if nobody else is at it; returns how many sagas were looked at."""
        turn = await self._jobs.take(JOB)
        if turn is None:
            return 0
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["let_go"], self._behind, self.BATCH)
        for row in rows:
            await self._let_go(row)
        # What cannot go on yet, as a tenant at its rate, is no obstacle to what stands behind it.
        is_full = len(rows) == self.BATCH
        self._behind = str(rows[-1]["saga_id"]) if is_full else _FIRST
        await self._jobs.give_back(turn, 0 if is_full else self.TICK_MS)
        return len(rows)

    async def _let_go(self, row: asyncpg.Record) -> None:
        hold_id, saga_id = str(row["hold_id"]), str(row["saga_id"])
        name = str(uuid.uuid5(uuid.UUID(hold_id), f"release {saga_id}"))
        event = Resume(Operation(name, row["released_by"], row["release_reason"]))
        handed_to: str | None = None
        try:
            if row["tenant"] is not None:
                await self._operations.attempt(row["tenant"], saga_id, event)
        except Held as error:
            handed_to = error.hold_id  # it stays paused, by another hold now
        except StoreUnavailable:
            raise
        except SagabusError as error:
            if error.retryable or error.code == "rate_limit_exceeded":
                return  # the next round tries again
        async with self._database.transaction() as conn:
            if handed_to is not None:
                now = instant(await self._database.now_ms())
                await conn.execute(SQL["note_held"], [handed_to], [saga_id], now)
            await conn.execute(SQL["gone_on"], hold_id, saga_id)


def _state(row: asyncpg.Record) -> HoldState:
    return HoldState(**{**dict(row), "id": str(row["id"])})


def _check(name: str, tenant: str, by: By) -> None:
    check_name(name, "name")
    if tenant:
        check_key(tenant, "tenant")
    if not by.reason.strip() or not by.actor.strip():
        raise Refused("invalid_operation", "say who holds or releases it, and why")


def _act(verb: str, target: str, name: str, tenant: str, by: By) -> Act:
    return Act(
        kind=f"pause:{verb}",
        by=by,
        subject=f"{target} {name}",
        permission="pause:set",
        tenant=tenant,
        workflow=name if target == "workflow" else "",
    )
