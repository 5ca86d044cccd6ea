"""What the bus tells people: log events and metrics, with every name in one place."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

from sagabus_bus.dead_letters import Reason
from sagabus_messages.record import Headers, Record
from sagabus_runtime.logs import get_logger
from sagabus_runtime.metrics import LatencyHistogram
from sagabus_runtime.telemetry import log_fields

__all__ = ["BusMetrics", "ConsumerEvents", "record_fields"]

EVENT_HOLDING: Final = "bus.holding"
EVENT_ISOLATING: Final = "bus.isolating"
EVENT_DEAD_LETTERED: Final = "bus.dead_lettered"
EVENT_COMMIT_LOST: Final = "bus.commit_lost"
EVENT_CLOSE_FAILED: Final = "bus.close_failed"
EVENT_UNREADABLE: Final = "bus.unreadable_record"

METRIC_RECORDS: Final = "sagabus_bus_records"
METRIC_HOLDS: Final = "sagabus_bus_holds"
METRIC_DEAD_LETTERS: Final = "sagabus_bus_dead_letters"
METRIC_COMMITS_LOST: Final = "sagabus_bus_commits_lost"
METRIC_LAG: Final = "sagabus_bus_lag_records"
METRIC_BEHIND: Final = "sagabus_bus_behind_seconds"
METRIC_OUTBOX_WAIT: Final = "sagabus_bus_outbox_seconds"
METRIC_TRANSIT: Final = "sagabus_bus_transit_seconds"
METRIC_BATCH: Final = "sagabus_bus_batch_seconds"


class BusMetrics:
    """The metrics of every consumer group of a process; made once by `build`."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, ["group", *labels], registry=registry)

        self.records = counter(METRIC_RECORDS, "Records handled")
        self.holds = counter(METRIC_HOLDS, "Attempts that met an outage")
        self.dead_letters = counter(METRIC_DEAD_LETTERS, "Records set aside", "reason")
        self.commits_lost = counter(METRIC_COMMITS_LOST, "Commits that a rebalance refused")
        self.lag = Gauge(
            METRIC_LAG,
            "Records of the partitions of this member that it has not handled yet",
            ["group", "topic"],
            registry=registry,
        )
        self.behind = Gauge(
            METRIC_BEHIND,
            "Age of the oldest record that this member has in hand; 0 where it has none",
            ["group"],
            registry=registry,
        )
        self.outbox_wait = LatencyHistogram(
            METRIC_OUTBOX_WAIT,
            "From ce_time (written to an outbox) to Kafka; some records of each batch",
            ["topic"],
            registry=registry,
        )
        self.transit = LatencyHistogram(
            METRIC_TRANSIT,
            "From Kafka to the consumer that handles it; some records of each batch",
            ["topic"],
            registry=registry,
        )
        self.batch = LatencyHistogram(
            METRIC_BATCH, "Handling of one batch until it is durable", ["group"], registry=registry
        )


def record_fields(headers: Headers) -> dict[str, str]:
    """Return what a log line about a record carries: its saga and trace, as far as it says so.

    Of records that are not ours nothing: their subject is no saga. What is said is not verified.
    """
    found = dict(headers)
    if not found.get("ce_type", b"").startswith(b"sagabus."):
        return {}
    said = (
        found.get(name, b"").decode("ascii", "replace") for name in ("ce_subject", "traceparent")
    )
    return log_fields(*(text[:64] for text in said))


class ConsumerEvents:
    """Counts and logs of one consumer group."""

    def __init__(self, group: str, metrics: BusMetrics | None = None) -> None:
        self._log = get_logger().bind(group=group)
        self._group = group
        self.metrics = metrics or BusMetrics()

    def handled(self, count: int) -> None:
        """Count records that are durable."""
        self.metrics.records.labels(self._group).inc(count)

    def holding(self, count: int, trouble: str, delay_ms: int) -> None:
        """Note an outage: the same records are tried again after the delay."""
        self.metrics.holds.labels(self._group).inc()
        self._log.warning(EVENT_HOLDING, records=count, reason=trouble, delay_ms=delay_ms)

    def isolating(self, count: int, error: Exception) -> None:
        """Note that a batch failed for something in it; the search begins."""
        # The text of an unexpected error may quote a payload: only its type is logged.
        self._log.warning(EVENT_ISOLATING, records=count, error=type(error).__name__)

    def dead_lettered(self, record: Record, reason: Reason, attempts: int) -> None:
        """Note a record that is durable among the dead letters."""
        self.metrics.dead_letters.labels(self._group, reason.code).inc()
        self._log.error(
            EVENT_DEAD_LETTERED,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason.code,
            attempts=attempts,
            **record_fields(record.headers),
        )

    def commit_lost(self, why: str) -> None:
        """Note offsets that a rebalance refused: some records will come again."""
        self.metrics.commits_lost.labels(self._group).inc()
        self._log.info(EVENT_COMMIT_LOST, reason=why)

    def unreadable(self, why: str) -> None:
        """Note that the driver cannot decode something it fetched; the search begins."""
        self._log.error(EVENT_UNREADABLE, reason=why)

    def close_failed(self, why: str) -> None:
        """Note a client that did not close in time and was left to its fate."""
        self._log.warning(EVENT_CLOSE_FAILED, reason=why)
