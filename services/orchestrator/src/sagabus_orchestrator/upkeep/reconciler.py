"""The reconciler: proves that every saga that is not at its end has something that moves it.

Rounds of small pages by id over the index of unfinished sagas; only those that stood still for a
while are read and proved. One replica does a page at a time (a lease). Doing one twice is harmless:
repairs look again under the row lock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import asyncpg

from sagabus_core.engine import Snapshot, from_json
from sagabus_messages.strict_json import load
from sagabus_orchestrator.handler import Handler
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.jobs import SQL, Jobs, Turn
from sagabus_orchestrator.upkeep.proof import Columns, Defect, Fault, defect_of, drift, waits_for
from sagabus_orchestrator.works import Intake, SweepWork
from sagabus_runtime import Pulse
from sagabus_runtime.errors import is_retryable
from sagabus_runtime.telemetry import log_fields
from sagabus_store import Database

__all__ = ["JOB", "Reconciler", "ReconcilerPolicy"]

JOB: Final = "reconciler"
DEFERRED_MS: Final = 3_600_000
"""How long messages may stay deferred for a saga that is not paused (recovery takes its time)."""
KEEP_DAYS: Final = 30


@dataclass(frozen=True, slots=True)
class ReconcilerPolicy:
    """How much it does at once and how long it waits; all times in milliseconds."""

    page: int = 2_000
    tick_ms: int = 1_000
    round_ms: int = 60_000
    quiet_ms: int = 60_000


class Reconciler:
    """Finds sagas that stand still for good, repairs what deciding again repairs, tells always."""

    def __init__(
        self,
        database: Database,
        handler: Handler,
        events: UpkeepEvents,
        policy: ReconcilerPolicy | None = None,
    ) -> None:
        self._database = database
        self._handler = handler
        self._events = events
        self._policy = policy or ReconcilerPolicy()
        self._jobs = Jobs(database)

    async def run(self, pulse: Pulse) -> None:
        """Look at page after page until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.tick()
            pulse.beat()
            await pulse.pause(self._policy.tick_ms)

    async def tick(self) -> bool:
        """Look at one page if it is due and no other replica is at it; returns whether it was."""
        turn = await self._jobs.take(JOB)
        if turn is None:
            return False
        page = await self._page(turn.position)
        counts = Counter({"begun_ms": turn.now_ms} if turn.position is None else turn.progress)
        counts["checked"] += len(page)
        counts.update(str(waits_for(row["control"], row["status"])) for row in page)
        counts["findings"] += await self._prove([str(row["id"]) for row in page], turn.now_ms)
        self._events.looked_at(len(page))
        if len(page) < self._policy.page:
            await self._end_round(turn, counts)
        else:
            last = str(page[-1]["id"])
            await self._jobs.give_back(turn, self._policy.tick_ms, last, counts)
        return True

    async def _page(self, position: str | None) -> list[asyncpg.Record]:
        async with self._database.connection() as conn:
            return await conn.fetch(SQL["unfinished_page"], position, self._policy.page)

    async def _end_round(self, turn: Turn, counts: Counter[str]) -> None:
        counts["findings"] += await self._prove_deferred()
        async with self._database.connection() as conn:
            await conn.execute(SQL["close_findings"], counts["begun_ms"])
            await conn.execute(SQL["forget_findings"], KEEP_DAYS)
        report = {**counts, "ended_ms": turn.now_ms}
        self._events.round_ended(counts)
        await self._jobs.give_back(turn, self._policy.round_ms, report=report)

    async def _prove(self, saga_ids: Sequence[str], now_ms: int) -> int:
        """Prove the sagas that stood still; returns how many had nothing to move them."""
        found = await self._defects(saga_ids, now_ms, self._policy.quiet_ms)
        if not found:
            return 0
        await self._mend_columns(list(found))
        still = await self._defects(list(found), now_ms, 0)
        await self._decide_again([s for s, d in still.items() if d.fault is not Fault.UNREADABLE])
        left = await self._defects(list(found), now_ms, 0)
        await self._tell(found, left)
        return len(found)

    async def _defects(
        self, saga_ids: Sequence[str], now_ms: int, quiet_ms: int
    ) -> dict[str, Defect]:
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["standing_still"], list(saga_ids), quiet_ms)
        proved = ((str(row["id"]), _defect_of_row(row, now_ms)) for row in rows)
        return {saga_id: defect for saga_id, defect in proved if defect is not None}

    async def _mend_columns(self, saga_ids: Sequence[str]) -> None:
        async with self._database.transaction() as conn:
            rows = await conn.fetch(SQL["lock_for_repair"], list(saga_ids))
            wrong = [saga for row in rows if (saga := _drifted(row)) is not None]
            if wrong:
                await conn.execute(
                    SQL["mend_columns"],
                    [saga.saga_id for saga in wrong],
                    [saga.status.value for saga in wrong],
                    [saga.control.value for saga in wrong],
                    [saga.revision for saga in wrong],
                    [saga.armed_at_ms for saga in wrong],
                )

    async def _decide_again(self, saga_ids: Sequence[str]) -> None:
        """Let the engine decide under the row locks; one that cannot be decided stops no other."""
        if not saga_ids:
            return
        try:
            await self._handler.settle(Intake([SweepWork(s, repair=True) for s in saga_ids]))
        except Exception as error:
            if is_retryable(error):
                raise
            if len(saga_ids) > 1:
                for saga_id in saga_ids:
                    await self._decide_again([saga_id])

    async def _prove_deferred(self) -> int:
        """Report messages that nobody would apply: their saga is not paused. Never repaired."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["deferred_too_long"], DEFERRED_MS, self._policy.page)
        found = {
            str(row["id"]): Defect(
                Fault.DEFERRED_UNAPPLIED, f"{row['messages']} deferred messages, and no pause"
            )
            for row in rows
        }
        await self._tell(found, found)
        return len(found)

    async def _tell(self, found: Mapping[str, Defect], left: Iterable[str]) -> None:
        if not found:
            return
        open_still = set(left)
        async with self._database.connection() as conn:
            await conn.execute(
                SQL["note_findings"],
                list(found),
                [defect.fault.value for defect in found.values()],
                [defect.detail for defect in found.values()],
                [saga_id not in open_still for saga_id in found],
            )
            rows = await conn.fetch(SQL["traces_of"], list(found))
        traces = {str(row["id"]): row["traceparent"] for row in rows}
        for saga_id, defect in found.items():
            fields = log_fields(saga_id, traces.get(saga_id))
            self._events.found(defect, fields, repaired=saga_id not in open_still)


def _columns(row: asyncpg.Record) -> Columns:
    return Columns(row["status"], row["control"], row["revision"], row["armed_at_ms"])


def _snapshot(row: asyncpg.Record) -> Snapshot | Defect:
    try:
        return from_json(load(row["snapshot"]))
    except Exception as error:
        if is_retryable(error):
            raise  # written by a newer release: that one will prove it
        return Defect(Fault.UNREADABLE, f"the snapshot cannot be read: {type(error).__name__}")


def _drifted(row: asyncpg.Record) -> Snapshot | None:
    saga = _snapshot(row)
    return None if isinstance(saga, Defect) or drift(saga, _columns(row)) is None else saga


def _defect_of_row(row: asyncpg.Record, now_ms: int) -> Defect | None:
    saga = _snapshot(row)
    if isinstance(saga, Defect):
        return saga
    return drift(saga, _columns(row)) or defect_of(saga, now_ms)
