"""A batch of records is one transaction: the consumer's handler, and the sweep."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Final, TypeAlias

from sagabus_bus import Reason, dead_letter_row
from sagabus_messages import Record, Topics
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.desk import Desk
from sagabus_orchestrator.entry import SPAN_BATCH, Scene
from sagabus_orchestrator.errors import OrphanedInstances, RivalStart, StaleCatalog
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.signatures import UNSIGNED
from sagabus_orchestrator.works import Intake, SweepWork, read_batch
from sagabus_runtime import Pulse
from sagabus_runtime.errors import is_retryable
from sagabus_store import Connection, Database, InboxWindow, Queries, outbox

__all__ = ["Beside", "DatabaseClock", "Handler", "Sweeper"]

SQL = Queries("sagabus_orchestrator", "sql/sagas.sql")

Beside: TypeAlias = Callable[[Connection, Outcome], Awaitable[None]]
"""What else belongs into a transaction; it is called again where the batch is decided again."""


class DatabaseClock:
    """The database clock to about a second, without a round trip: for age limits in minutes."""

    REFRESH_S: Final = 60.0

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read_at_s: float | None = None
        self._read_ms = 0

    async def now_ms(self) -> int:
        """Return the database time, read anew once a minute and carried on monotonically."""
        now_s = time.monotonic()
        if self._read_at_s is None or now_s - self._read_at_s > self.REFRESH_S:
            self._read_ms = await self._database.now_ms()
            self._read_at_s = time.monotonic()
            return self._read_ms
        return self._read_ms + int((now_s - self._read_at_s) * 1000)


class Handler:
    """Decides batches. Safe to run in any number of replicas: locks and claims decide, not they."""

    def __init__(
        self,
        database: Database,
        topics: Topics,
        watcher: CatalogWatcher,
        window: InboxWindow,
        events: OrchestratorEvents,
        mode: RecoveryMode = RecoveryMode.OFF,
    ) -> None:
        self.mode = mode
        self.signatures = UNSIGNED
        """What checks results and signs commands; set before the first batch."""
        self._database = database
        self._topics = topics
        self._watcher = watcher
        self._window_ms = window.days * 86_400_000
        self._clock = DatabaseClock(database)
        self._events = events

    async def process(self, records: Sequence[Record]) -> None:
        """Decide a batch in one transaction; all of it is durable afterwards, or none."""
        intake = read_batch(
            records,
            self._topics,
            now_ms=await self._clock.now_ms(),
            window_ms=self._window_ms,
            signatures=self.signatures,
        )
        await self.settle(intake)

    async def settle(self, intake: Intake, beside: Beside | None = None) -> Outcome:
        """Decide what passed the door in one transaction; `beside` adds to it behind all locks."""
        try:
            outcome = await self._decide(intake, beside)
        except (OrphanedInstances, StaleCatalog):
            await self._watcher.refresh()
            outcome = await self._decide(intake, beside)
        except RivalStart:
            outcome = await self._decide(intake, beside)
        self._events.settled(outcome)
        return outcome

    async def _decide(self, intake: Intake, beside: Beside | None) -> Outcome:
        tracing = self._events.tracing
        with tracing.batch_span(SPAN_BATCH, _traces(intake)):
            async with self._database.transaction() as conn:
                scene = Scene(self._topics, 0, tracing, self.signatures.signer)
                desk = Desk(conn, scene, self._watcher.current, self.mode)
                outcome = await desk.settle(intake)
                if beside is not None:
                    await beside(conn, outcome)
                return outcome

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Set a poison record aside through the outbox, without a claim."""
        now_ms = await self._clock.now_ms()
        row = dead_letter_row(record, reason, attempts=attempts, seen_at_ms=now_ms)
        async with self._database.transaction() as conn:
            await outbox.append_locked(conn, [row])
        self._events.dead_lettered(record, reason)


def _traces(intake: Intake) -> Iterator[str | None]:
    return (work.meta.traceparent for work in intake.works if not isinstance(work, SweepWork))


class Sweeper:
    """The second line behind the timer: decides instances whose wake-up never came."""

    BATCH: Final = 200
    PASS_OVER_S: Final = 60.0
    """How long a saga whose decision failed is left alone, so that others get their turn."""

    def __init__(
        self,
        database: Database,
        handler: Handler,
        events: OrchestratorEvents,
        *,
        interval_ms: int,
        grace_ms: int,
    ) -> None:
        self._database = database
        self._handler = handler
        self._events = events
        self._broken: dict[str, float] = {}
        self._interval_ms = interval_ms
        self._grace_ms = grace_ms

    async def run(self, pulse: Pulse) -> None:
        """Sweep until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            found = await self.sweep()
            pulse.beat()
            if found < self.BATCH:
                await pulse.pause(self._interval_ms)

    async def sweep(self) -> int:
        """Decide the longest overdue instances; returns how many were found.

        None while topics are replayed: the answer of a saga may be among what is still to be read.
        """
        if self._handler.mode is RecoveryMode.REPLAY:
            return 0
        async with self._database.connection() as conn:
            limit_ms = await self._database.now_ms() - self._grace_ms
            rows = await conn.fetch(SQL["overdue_sagas"], limit_ms, self._passed_over(), self.BATCH)
        works = [SweepWork(str(row["id"]), row["traceparent"]) for row in rows]
        if works:
            self._events.swept(len(works))
            await self._decide(works)
        return len(works)

    async def _decide(self, works: Sequence[SweepWork]) -> None:
        """Decide together, or one by one: a saga that cannot be decided must not stop the rest."""
        try:
            await self._handler.settle(Intake(works))
        except Exception as error:
            if is_retryable(error):
                raise
            if len(works) == 1:
                self._broken[works[0].saga_id] = time.monotonic()
                self._events.sweep_failed(works[0], error)
                return
            for work in works:
                await self._decide([work])

    def _passed_over(self) -> list[str]:
        oldest = time.monotonic() - self.PASS_OVER_S
        self._broken = {saga: at for saga, at in self._broken.items() if at > oldest}
        return list(self._broken)
