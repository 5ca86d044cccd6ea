"""What ringing costs the commits of one database server, and when that is too much.

Commits that notify wait for each other in the whole server, each for the flush of the one before
(decision 0019). So the share of the time in which one of them is flushing is rings per second times
what a commit takes, summed over all bells of the server: at one half they begin to queue.
"""

from __future__ import annotations

from typing import Final

from sagabus_relay.lease import Clock, monotonic_ms

__all__ = ["QUIET_MS", "Rings"]

WINDOW_MS: Final = 1_000.0
MOST: Final = 0.5
"""Share of the time that the commits which ring may take; beyond it bells are let go."""
QUIET_MS: Final = 5_000.0
"""How long an outbox is polled before its bell is tried again."""
WEIGHT: Final = 0.1
"""Of the newest commit in the average of all."""


class Rings:
    """Shared by the bells of all outboxes of a server that this process listens to."""

    def __init__(self, clock: Clock = monotonic_ms) -> None:
        self._clock = clock
        self._since_ms = clock()
        self._rung = 0
        self._commit_ms = 0.0
        self._share = 0.0

    @property
    def too_many(self) -> bool:
        """Whether writers of this server wait for each other because they ring."""
        return self._share > MOST

    def note(self, rung: int, commit_ms: float | None) -> None:
        """Count commits that rang; `commit_ms`: what a small commit of our own has just taken."""
        if commit_ms is not None:
            known = self._commit_ms or commit_ms
            self._commit_ms = known + WEIGHT * (commit_ms - known)
        self._rung += rung
        now_ms = self._clock()
        passed_ms = now_ms - self._since_ms
        if passed_ms >= WINDOW_MS:
            self._share = self._rung / passed_ms * self._commit_ms
            self._since_ms, self._rung = now_ms, 0
