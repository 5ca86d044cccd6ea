"""Topics that cannot be written for now, and when to try each of them again."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["TopicHolds"]


class TopicHolds:
    """Holds with a growing pause per topic; the clock is the caller's monotonic one, in ms."""

    def __init__(self, first_ms: float, max_ms: float) -> None:
        self._first_ms = first_ms
        self._max_ms = max_ms
        self._until: dict[str, float] = {}
        self._pause: dict[str, float] = {}

    def close(self, topics: Iterable[str], now_ms: float) -> None:
        """Hold these topics; each repeated hold waits twice as long as the one before."""
        for topic in topics:
            pause = min(self._max_ms, self._pause.get(topic, self._first_ms / 2) * 2)
            self._pause[topic] = pause
            self._until[topic] = now_ms + pause

    def opened(self, topics: Iterable[str]) -> None:
        """Forget these topics: a record of theirs was acknowledged."""
        for topic in topics:
            self._pause.pop(topic, None)
            self._until.pop(topic, None)

    def held(self, now_ms: float) -> list[str]:
        """Return the topics that must not be tried yet, sorted."""
        return sorted(topic for topic, until in self._until.items() if until > now_ms)

    @property
    def count(self) -> int:
        """Topics under a hold or on trial after one."""
        return len(self._pause)
