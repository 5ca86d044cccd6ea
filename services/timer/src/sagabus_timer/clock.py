"""Time that neither jumps nor stands still: the database's clock, carried by elapsed time.

The first sight of the database clock sets the time. From then on time passes as the monotonic
clock says, and a difference to the database is only closed slowly. A wall clock that is set
forward by an hour fires nothing early, one that is set back freezes nothing.
"""

from __future__ import annotations

__all__ = ["SteadyClock"]


class SteadyClock:
    """Epoch ms, from sightings of the database clock and readings of a monotonic one."""

    def __init__(self, max_slew: float = 0.01) -> None:
        self._max_slew = max_slew
        self._offset_ms: float | None = None
        self._seen_at_ms = 0.0

    @property
    def known(self) -> bool:
        """Whether the database clock was seen at all."""
        return self._offset_ms is not None

    def sight(self, database_ms: int, monotonic_ms: float) -> float:
        """Take note of the database clock; returns how far it was from ours before, in ms.

        `monotonic_ms` is read after the answer arrived: our time is then never ahead of the
        database's, so that nothing fires early by the length of a round trip.
        """
        seen = database_ms - monotonic_ms
        if self._offset_ms is None:
            self._offset_ms = seen
            self._seen_at_ms = monotonic_ms
            return 0.0
        error = seen - self._offset_ms
        most = self._max_slew * (monotonic_ms - self._seen_at_ms)
        self._offset_ms += min(most, max(-most, error))
        self._seen_at_ms = monotonic_ms
        return error

    def now_ms(self, monotonic_ms: float) -> int:
        """Return the time; `known` must be true."""
        return int(monotonic_ms + (self._offset_ms or 0.0))
