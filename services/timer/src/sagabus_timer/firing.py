"""Fires what is due: takes it, writes the wake-ups to the outbox, in one transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from opentelemetry.trace import Span

from sagabus_messages import Stamp, Topics, Wakeup, encode, source_of
from sagabus_messages.record import OutboxRow
from sagabus_runtime import Pulse, failpoints
from sagabus_runtime.names import FIELD_SAGA_ID
from sagabus_runtime.telemetry import is_sampled
from sagabus_store import Database, outbox
from sagabus_timer import table
from sagabus_timer.events import TimerEvents
from sagabus_timer.table import Due
from sagabus_timer.timekeeper import Timekeeper

__all__ = ["Firing", "FiringPolicy"]

SPAN_WAKEUP: Final = "timer.wakeup"


@dataclass(frozen=True, slots=True)
class FiringPolicy:
    """`batch` wake-ups per transaction; none while `outbox_bound` records wait for the relay.

    `idle_ms` bounds the sleep: another replica may have armed something and died. `gap_ms` is the
    least wait between two rounds that were not full, so that wake-ups share transactions;
    `blocked_ms` the wait while the relay is behind.
    """

    batch: int = 500
    outbox_bound: int = 5_000
    idle_ms: int = 500
    gap_ms: int = 5
    blocked_ms: int = 50


class Firing:
    """The loop that fires; any number of replicas run it on one table."""

    def __init__(
        self,
        database: Database,
        topics: Topics,
        timekeeper: Timekeeper,
        armed: asyncio.Event,
        policy: FiringPolicy,
        events: TimerEvents,
    ) -> None:
        self._database = database
        self._topics = topics
        self._timekeeper = timekeeper
        self._armed = armed
        self._policy = policy
        self._events = events
        self._backlog = True
        """Whether more may be due than one batch: until the first look, yes."""

    async def run(self, pulse: Pulse) -> None:
        """Fire until `pulse.stopping`."""
        while not pulse.stopping:
            pulse.beat()
            self._armed.clear()  # before the look: what is armed during it is looked for again
            fired = await self.fire()
            await self._sleep(pulse, await self._wait_ms(fired))

    async def fire(self) -> int | None:
        """Fire one batch of what is due; returns how many, durable on return; None if held back.

        While the relay is behind nothing is fired: what is due stays in the table, where the
        latest can be served beside the oldest, instead of standing in line in the outbox.
        """
        room = await self._room()
        if room <= 0:
            return None
        now_ms = await self._timekeeper.now_ms()
        spans: list[Span] = []
        async with self._database.transaction() as connection:
            due = await table.take_due(connection, now_ms, room)
            await failpoints.reach("timer.after-take")
            if due:
                await outbox.append(connection, self._wakeups(due, now_ms, spans))
            await failpoints.reach("timer.before-fire-commit")
        await failpoints.reach("timer.after-fire-commit")
        self._backlog = len(due) >= room
        self._events.fired(due, now_ms)
        for span in spans:
            span.end()
        return len(due)

    async def _room(self) -> int:
        """Return how many wake-ups may be fired now; asked of the table only in a backlog."""
        policy = self._policy
        if not self._backlog:
            return policy.batch
        async with self._database.connection() as connection:
            return min(
                policy.batch,
                policy.outbox_bound - await table.outbox_depth(connection, policy.outbox_bound),
            )

    async def _wait_ms(self, fired: int | None) -> int:
        if fired is None:
            return self._policy.blocked_ms
        if fired >= self._policy.batch:
            return 0
        async with self._database.connection() as connection:
            next_due_ms = await table.next_due_ms(connection)
        if next_due_ms is None:
            return self._policy.idle_ms
        ahead_ms = next_due_ms - await self._timekeeper.now_ms()
        return max(self._policy.gap_ms, min(self._policy.idle_ms, ahead_ms))

    async def _sleep(self, pulse: Pulse, wait_ms: int) -> None:
        if wait_ms <= 0:
            await asyncio.sleep(0)
            return
        stop = asyncio.ensure_future(pulse.pause(wait_ms))
        armed = asyncio.ensure_future(self._armed.wait())
        try:
            await asyncio.wait({stop, armed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for waiter in (stop, armed):
                waiter.cancel()
            await asyncio.gather(stop, armed, return_exceptions=True)

    def _wakeups(self, due: Sequence[Due], now_ms: int, spans: list[Span]) -> list[OutboxRow]:
        return [
            encode(
                Wakeup(
                    saga_id=d.saga_id,
                    generation=d.generation,
                    at_ms=d.due_at_ms,
                    fired_at_ms=now_ms,
                ),
                self._topics.wakeup,
                Stamp(source_of("timer"), now_ms, self._trace(d, now_ms, spans)),
            )
            for d in due
        ]

    def _trace(self, due: Due, now_ms: int, spans: list[Span]) -> str | None:
        """Return the place in its trace from which a wake-up goes on; `spans` end at the commit."""
        if not is_sampled(due.traceparent):
            return due.traceparent
        attributes: dict[str, str | int] = {
            FIELD_SAGA_ID: due.saga_id,
            "generation": due.generation,
            "late_ms": now_ms - due.due_at_ms,
        }
        here, span = self._events.tracing.begin(SPAN_WAKEUP, due.traceparent, attributes)
        if span is not None:
            spans.append(span)
        return here
