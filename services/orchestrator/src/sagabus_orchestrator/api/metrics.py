"""What the API counts: requests by operation and status, and how long they took."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

__all__ = ["ApiMetrics"]

_BUCKETS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0)


class ApiMetrics:
    """Metrics of one replica; labels are names of operations, never what callers send."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._took = Histogram(
            "sagabus_api_request_seconds",
            "Time until an answer began, by operation and status; long polls wait on purpose",
            ("operation", "status"),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._limited = Counter(
            "sagabus_api_limited_total",
            "Requests that a limit of the API refused or ended, by limit",
            ("limit",),
            registry=registry,
        )
        self.active = Gauge(
            "sagabus_api_requests_active",
            "Requests under way, streams and long polls included",
            registry=registry,
        )

    def answered(self, operation: str, status: int, took_s: float) -> None:
        """Count an answer."""
        self._took.labels(operation, str(status)).observe(took_s)

    def limited(self, limit: str) -> None:
        """Count what a limit refused or ended; `limit` is one of a few names of ours."""
        self._limited.labels(limit).inc()
