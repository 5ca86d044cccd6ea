"""Takes wake-up requests from Kafka into the table.

There is no inbox claim: a row changes only to a higher generation, so a repeat, and any request
that was overtaken, changes nothing. What an inbox would add is a bound on how late a repeat may
come, and that is checked here: a request older than the window is refused, and for as long as one
may come the row of its saga is kept, if only as a tombstone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sagabus_bus import Reason, dead_letter_row
from sagabus_messages import Topics, WakeupRequest, age_problem, decode
from sagabus_messages.record import Record
from sagabus_runtime import failpoints
from sagabus_store import Database, outbox
from sagabus_timer import table
from sagabus_timer.errors import RequestOutOfWindow, TimerError
from sagabus_timer.events import TimerEvents
from sagabus_timer.requests import Arming, newest_per_saga
from sagabus_timer.timekeeper import Timekeeper

__all__ = ["RequestHandler"]


class RequestHandler:
    """A `BatchHandler` of the wake-up request topic.

    `armed` is set whenever a batch is durable, so that the firing loop looks again.
    """

    def __init__(
        self,
        database: Database,
        topics: Topics,
        window_ms: int,
        timekeeper: Timekeeper,
        events: TimerEvents,
    ) -> None:
        self.armed = asyncio.Event()
        self._database = database
        self._topics = topics
        self._window_ms = window_ms
        self._timekeeper = timekeeper
        self._events = events

    async def process(self, records: Sequence[Record]) -> None:
        """Apply the requests, each saga's highest generation; durable on return."""
        now_ms = await self._timekeeper.now_ms()
        requests = [self._read(record, now_ms) for record in records]
        armings = newest_per_saga(requests)
        async with self._database.transaction() as connection:
            applied = await table.arm(connection, armings)
            await failpoints.reach("timer.before-arm-commit")
        await failpoints.reach("timer.after-arm-commit")
        self._events.requested(len(requests), applied)
        self.armed.set()

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Set one request aside through the outbox."""
        seen_at_ms = await self._timekeeper.now_ms()
        row = dead_letter_row(record, reason, attempts=attempts, seen_at_ms=seen_at_ms)
        async with self._database.transaction() as connection:
            await outbox.append_locked(connection, [row])

    def _read(self, record: Record, now_ms: int) -> Arming:
        envelope = decode(record, self._topics)
        body, requested_at_ms = envelope.body, envelope.meta.ce_time_ms
        if not isinstance(body, WakeupRequest):
            raise TimerError("unknown_topic", f"{record.topic} carries no wake-up requests")
        problem = age_problem(requested_at_ms, now_ms, self._window_ms)
        if problem is not None:
            raise RequestOutOfWindow(problem, f"requested at {requested_at_ms}, now {now_ms}")
        trace = envelope.meta.traceparent
        return Arming(body.saga_id, body.generation, body.at_ms, requested_at_ms, trace)
