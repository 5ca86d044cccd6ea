"""A lease as its holder sees it: how long it may still act, on its own monotonic clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeAlias

from sagabus_relay.slots import Slot

__all__ = ["Clock", "Lease", "monotonic_ms"]

Clock: TypeAlias = Callable[[], float]


def monotonic_ms() -> float:
    """Return milliseconds that no wall-clock step moves and that go on while suspended."""
    # CLOCK_MONOTONIC stands still while the machine sleeps, the lease in the database does not.
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


class Lease:
    """The right to publish the rows of one slot.

    `allows()` is asked before every send and every write. It counts from *before* the renewal was
    asked for, less a margin, so that it ends earlier here than in the database.
    """

    def __init__(self, slot: Slot, clock: Clock = monotonic_ms) -> None:
        self.slot = slot
        self._clock = clock
        self._until_ms = float("-inf")

    def extend(self, asked_at_ms: float, usable_ms: float) -> None:
        """Record a renewal that was asked for at `asked_at_ms`."""
        self._until_ms = asked_at_ms + usable_ms

    def end(self) -> None:
        """Record the loss or the return of the lease; it never comes back to life."""
        self._until_ms = float("-inf")

    def allows(self) -> bool:
        """Say whether the holder may act now."""
        return self._clock() < self._until_ms
