"""What one caller may hold at once, so that nobody takes what all others need."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sagabus_orchestrator.api.config import ApiSettings
from sagabus_orchestrator.api.errors import ApiBusy, CallerBusy
from sagabus_orchestrator.api.metrics import ApiMetrics

__all__ = ["Share", "Shares"]


class Share:
    """At most `most_each` at once for one caller, and `most` for all; nobody waits for room."""

    def __init__(
        self, what: str, metrics: ApiMetrics, *, most_each: int, most: int | None = None
    ) -> None:
        self._what = what
        self._metrics = metrics
        self._most_each = most_each
        self._most = most
        self._held: Counter[str] = Counter()

    @contextmanager
    def held_by(self, caller: str) -> Iterator[None]:
        """Hold one for a caller during the block. Raises `CallerBusy`, `ApiBusy`."""
        if self._held[caller] >= self._most_each:
            self._metrics.limited(f"{self._what}_of_caller")
            raise CallerBusy(
                "caller_busy",
                f"you have {self._most_each} {self._what} under way, the most for one caller:"
                " wait for one to end",
            )
        if self._most is not None and self._held.total() >= self._most:
            self._metrics.limited(self._what)
            raise ApiBusy("api_busy", "this replica has enough to do: ask again")
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            self._held = +self._held  # who holds nothing is forgotten


@dataclass(frozen=True, slots=True)
class Shares:
    """The shares of a replica: requests of any kind, those that wait, and those that count."""

    requests: Share
    waits: Share
    """Streams and long polls: below `requests`, so that they leave their caller room to act."""
    scans: Share
    """Bulk operations that look at every saga before they are answered."""

    @classmethod
    def of(cls, settings: ApiSettings, metrics: ApiMetrics) -> Shares:
        """Return the shares that the settings name."""
        return cls(
            requests=Share("requests", metrics, most_each=settings.api_requests_per_caller),
            waits=Share("waits", metrics, most_each=settings.api_waits_per_caller),
            scans=Share(
                "scans",
                metrics,
                most_each=settings.api_scans_per_caller,
                most=settings.api_scans,
            ),
        )
