"""Virtual time: what is due when. Nothing waits, time jumps to the next appointment."""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from sagabus_testkit.memory.errors import KitError

__all__ = ["BEGIN_AT_MS", "Agenda", "Appointment"]

BEGIN_AT_MS: Final = 1_767_225_600_000
"""2026-01-01T00:00:00Z, when every kit begins: the same test makes the same timeline."""
_MOST_STEPS: Final = 100_000


@dataclass(slots=True, order=True)
class Appointment:
    """Something to be done at an instant; in the order of `number` where instants are equal."""

    at_ms: int
    number: int
    action: Callable[[], Awaitable[None]] = field(compare=False)
    cancelled: bool = field(default=False, compare=False)


class Agenda:
    """The clock of a kit and everything that is to come."""

    def __init__(self) -> None:
        self.now_ms = BEGIN_AT_MS
        self._waiting: list[Appointment] = []
        self._numbers = count()

    def after(self, delay_ms: int, action: Callable[[], Awaitable[None]]) -> Appointment:
        """Do this so much later; the appointment may be cancelled until then."""
        return self.at(self.now_ms + delay_ms, action)

    def at(self, at_ms: int, action: Callable[[], Awaitable[None]]) -> Appointment:
        """Do this at an instant, or next where that has passed."""
        made = Appointment(max(at_ms, self.now_ms), next(self._numbers), action)
        heapq.heappush(self._waiting, made)
        return made

    @property
    def next_at_ms(self) -> int | None:
        """When the next thing is due, or None where nothing is to come."""
        while self._waiting and self._waiting[0].cancelled:
            heapq.heappop(self._waiting)
        return self._waiting[0].at_ms if self._waiting else None

    async def run(self, until_ms: int | None = None) -> None:
        """Do everything in its order, up to and at `until_ms`, or until nothing is to come.

        Raises `KitError` (`kit_never_ends`) after a hundred thousand steps.
        """
        steps = 0
        while (at_ms := self.next_at_ms) is not None and (until_ms is None or at_ms <= until_ms):
            steps += 1
            if steps > _MOST_STEPS:
                raise KitError("kit_never_ends", f"{_MOST_STEPS} steps and still something due")
            self.now_ms = at_ms
            await heapq.heappop(self._waiting).action()
        if until_ms is not None:
            self.now_ms = max(self.now_ms, until_ms)
