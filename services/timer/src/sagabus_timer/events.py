"""What the timer tells people: log events and metrics, with every name in one place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sagabus_runtime import Tracing, get_logger
from sagabus_timer.table import Census, Due

__all__ = ["TimerEvents"]

EVENT_CLOCK_STEP: Final = "timer.clock_step"

METRIC_REQUESTS: Final = "sagabus_timer_requests"
METRIC_FIRED: Final = "sagabus_timer_fired"
METRIC_LATENESS: Final = "sagabus_timer_lateness_seconds"
METRIC_ARMED: Final = "sagabus_timer_armed"
METRIC_OVERDUE: Final = "sagabus_timer_overdue"
METRIC_OVERDUE_SECONDS: Final = "sagabus_timer_overdue_seconds"
METRIC_BURIED: Final = "sagabus_timer_tombstones_removed"
METRIC_CLOCK_ERROR: Final = "sagabus_timer_clock_error_seconds"

_BUCKETS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300)
_STEP_MS: Final = 1_000


class TimerEvents:
    """Logs, metrics and spans of one timer process."""

    def __init__(self, registry: CollectorRegistry, tracing: Tracing | None = None) -> None:
        self.tracing = tracing or Tracing()
        self._log = get_logger()
        self._requests = Counter(METRIC_REQUESTS, "Requests", ["effect"], registry=registry)
        self._fired = Counter(METRIC_FIRED, "Wake-ups fired", registry=registry)
        self._lateness = Histogram(
            METRIC_LATENESS, "From due to fired", buckets=_BUCKETS, registry=registry
        )
        self._armed = Gauge(METRIC_ARMED, "Wake-ups armed (counted up to a bound)",
                            registry=registry)  # fmt: skip
        self._overdue = Gauge(METRIC_OVERDUE, "Wake-ups due and not fired", registry=registry)
        self._overdue_seconds = Gauge(
            METRIC_OVERDUE_SECONDS, "How late the longest overdue wake-up is", registry=registry
        )
        self._buried = Counter(METRIC_BURIED, "Tombstones removed", registry=registry)
        self._clock_error = Gauge(
            METRIC_CLOCK_ERROR, "Database clock less ours at the last look", registry=registry
        )

    def requested(self, received: int, applied: int) -> None:
        """Count requests: applied, or overtaken by a higher generation."""
        self._requests.labels("applied").inc(applied)
        self._requests.labels("overtaken").inc(received - applied)

    def fired(self, fired: Sequence[Due], now_ms: int) -> None:
        """Count wake-ups that are durable in the outbox, with their lateness."""
        self._fired.inc(len(fired))
        for due in fired:
            self._lateness.observe(max(0, now_ms - due.due_at_ms) / 1000)

    def clock_seen(self, error_ms: float) -> None:
        """Note how far the database clock was from ours."""
        self._clock_error.set(error_ms / 1000)
        if abs(error_ms) >= _STEP_MS:
            self._log.warning(EVENT_CLOCK_STEP, error_ms=round(error_ms))

    def buried(self, count: int) -> None:
        """Count tombstones that were removed."""
        self._buried.inc(count)

    def census(self, census: Census) -> None:
        """Publish how much is armed and overdue."""
        self._armed.set(census.armed)
        self._overdue.set(census.overdue)
        self._overdue_seconds.set(census.late_ms / 1000)
