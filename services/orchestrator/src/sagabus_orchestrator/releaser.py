"""Lets sagas go on that a hold has paused, once it is released."""

from __future__ import annotations

import time
from typing import Final

import asyncpg

from sagabus_core.errors import OperationRefused, SagabusError
from sagabus_orchestrator.errors import Held, NotFound
from sagabus_orchestrator.holds import SQL, Hold
from sagabus_orchestrator.operations import Operations, Terms
from sagabus_orchestrator.upkeep.jobs import Jobs
from sagabus_runtime import Pulse, get_logger
from sagabus_runtime.failpoints import hit
from sagabus_store import Connection, Database, StoreUnavailable

__all__ = ["JOB", "Releaser"]

log = get_logger()

JOB: Final = "holds"
_OUTAGES: Final = (StoreUnavailable, OSError, TimeoutError)
_FIRST: Final = "00000000-0000-0000-0000-000000000000"


class Releaser:
    """Resumes what released holds paused: one replica at a time, each saga once.

    The tenant's rate does not pay for it: nobody asked for these operations but the system.
    """

    BATCH: Final = 50
    TICK_MS: Final = 1_000
    PASS_OVER_S: Final = 60.0
    """How long a saga that could not go on is left alone, so that others get their turn."""

    def __init__(self, database: Database, operations: Operations) -> None:
        self._database = database
        self._operations = operations
        self._jobs = Jobs(database)
        self._behind = _FIRST
        self._broken: dict[str, float] = {}

    async def run(self, pulse: Pulse) -> None:
        """Work until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            looked_at = await self.tick()
            pulse.beat()
            if looked_at < self.BATCH:
                await pulse.pause(self.TICK_MS)

    async def tick(self) -> int:
        """Let go a batch, if nobody else is at it; returns how many sagas were looked at."""
        turn = await self._jobs.take(JOB)
        if turn is None:
            return 0
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["let_go"], self._behind, self.BATCH, self._passed_over())
        try:
            for row in rows:
                await self._let_go(row)
        except _OUTAGES:
            await self._jobs.give_back(turn, self.TICK_MS)  # or nobody would try for a minute
            raise
        # What cannot go on yet is no obstacle to what stands behind it.
        is_full = len(rows) == self.BATCH
        self._behind = str(rows[-1]["saga_id"]) if is_full else _FIRST
        await self._jobs.give_back(turn, 0 if is_full else self.TICK_MS)
        return len(rows)

    async def _let_go(self, row: asyncpg.Record) -> None:
        hold_id, saga_id = str(row["hold_id"]), str(row["saga_id"])
        try:
            await self._resume(row)
        except Held as error:  # it stays paused, by another hold now
            async with self._database.connection() as conn:
                await conn.execute(SQL["hand_over"], hold_id, saga_id, error.hold_id)
        except (NotFound, OperationRefused):  # it is in the archive, or was resumed by hand
            async with self._database.connection() as conn:
                await conn.execute(SQL["gone_on"], hold_id, saga_id)
        except _OUTAGES:
            self._broken[saga_id] = time.monotonic()  # it may be this saga's alone: a lock, a page
            raise
        except Exception as error:
            self._broken[saga_id] = time.monotonic()
            code = error.code if isinstance(error, SagabusError) else type(error).__name__
            log.exception("holds.saga_not_resumed", saga_id=saga_id, code=code)

    async def _resume(self, row: asyncpg.Record) -> None:
        hold_id, saga_id = str(row["hold_id"]), str(row["saga_id"])
        if row["tenant"] is None:
            raise NotFound("not_found", f"there is no saga {saga_id} any more")
        hold = Hold(hold_id, row["target"], row["name"], row["hold_tenant"], "", "")
        event = hold.resume(saga_id, row["released_by"], row["release_reason"])

        async def take(conn: Connection) -> None:
            # Behind the saga's lock: whoever has resumed or paused it by hand has deleted the row.
            if await conn.fetchval(SQL["gone_on"], hold_id, saga_id) is None:
                raise OperationRefused("precondition_failed", "no hold keeps the saga any more")
            hit("holds.after-gone-on")

        terms = Terms(beside=take, is_metered=False)
        await self._operations.attempt(row["tenant"], saga_id, event, terms)

    def _passed_over(self) -> list[str]:
        oldest = time.monotonic() - self.PASS_OVER_S
        self._broken = {saga: at for saga, at in self._broken.items() if at > oldest}
        return list(self._broken)
