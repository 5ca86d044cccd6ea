"""When to look again: at once while there is work, ever more rarely while there is none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pace", "PacePolicy"]


@dataclass(frozen=True, slots=True)
class PacePolicy:
    """Waits in ms: `gap` between two partly filled rounds, `idle_first` growing to `idle_max`."""

    gap_ms: float
    idle_first_ms: float
    idle_max_ms: float
    growth: float = 1.5


class Pace:
    """The wait before the next look at one slot."""

    def __init__(self, policy: PacePolicy) -> None:
        self._policy = policy
        self._idle_ms = policy.idle_first_ms

    def next_ms(self, moved: int, limit: int, fetch_ms: float) -> float:
        """Return the wait after a round that moved `moved` of at most `limit` rows.

        `fetch_ms` is what the look itself took: looking never takes more than a third of the time
        of a slot that has nothing to do, however many rows of a held topic it has to step over.
        """
        if moved:
            self._idle_ms = self._policy.idle_first_ms
            return 0.0 if moved >= limit else self._policy.gap_ms
        wait = max(self._idle_ms, 2 * fetch_ms)
        self._idle_ms = min(self._policy.idle_max_ms, self._idle_ms * self._policy.growth)
        return wait
