"""Removes tombstones that nothing can meet any more, and counts what is armed."""

from __future__ import annotations

from typing import Final

from sagabus_runtime import Pulse
from sagabus_store import Database
from sagabus_timer import table
from sagabus_timer.events import TimerEvents
from sagabus_timer.timekeeper import Timekeeper

__all__ = ["Housekeeping"]

ROUND_MS: Final = 10_000
BATCH: Final = 1_000
CENSUS_BOUND: Final = 100_000
DAY_MS: Final = 86_400_000


class Housekeeping:
    """The slow loop of the timer; several replicas may run it at once."""

    def __init__(
        self, database: Database, timekeeper: Timekeeper, window_ms: int, events: TimerEvents
    ) -> None:
        self._database = database
        self._timekeeper = timekeeper
        self._window_ms = window_ms
        self._events = events

    async def run(self, pulse: Pulse) -> None:
        """Keep house until `pulse.stopping`."""
        while not pulse.stopping:
            pulse.beat()
            if await self.bury() < BATCH:
                await self.count()
                await pulse.pause(ROUND_MS)

    async def bury(self) -> int:
        """Remove one batch of tombstones; returns how many.

        A tombstone of generation g guards against requests up to g. All of them were made no
        later than the request of g, and requests older than the window are refused: one window
        (and a day, for clocks that differ) after that request there is nothing left to guard.
        """
        before_ms = await self._timekeeper.now_ms() - self._window_ms - DAY_MS
        async with self._database.transaction() as connection:
            buried = await table.bury(connection, before_ms, BATCH)
        self._events.buried(buried)
        return buried

    async def count(self) -> None:
        """Publish the number of armed and overdue wake-ups."""
        now_ms = await self._timekeeper.now_ms()
        async with self._database.connection() as connection:
            self._events.census(await table.census(connection, now_ms, CENSUS_BOUND))
