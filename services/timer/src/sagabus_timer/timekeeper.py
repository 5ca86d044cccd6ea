"""The steady clock on this process's monotonic time and the database's sightings."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from sagabus_timer.clock import SteadyClock
from sagabus_timer.events import TimerEvents

__all__ = ["Timekeeper", "monotonic_ms"]

Sighting: TypeAlias = Callable[[], Awaitable[int]]
"""Reads the database clock, epoch ms."""

SIGHT_EVERY_MS: Final = 1_000.0


def monotonic_ms() -> float:
    """Return milliseconds that no wall-clock step moves and that go on while suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


class Timekeeper:
    """Tells the time after a look at the database clock at most a second ago."""

    def __init__(
        self,
        sighting: Sighting,
        events: TimerEvents,
        monotonic: Callable[[], float] = monotonic_ms,
    ) -> None:
        self._sighting = sighting
        self._events = events
        self._monotonic = monotonic
        self._clock = SteadyClock()
        self._sighted_at_ms = float("-inf")

    async def now_ms(self) -> int:
        """Return the time in epoch ms; raises what the database raises."""
        if self._monotonic() - self._sighted_at_ms >= SIGHT_EVERY_MS:
            seen = await self._sighting()
            self._sighted_at_ms = self._monotonic()
            self._events.clock_seen(self._clock.sight(seen, self._sighted_at_ms))
        return self._clock.now_ms(self._monotonic())
