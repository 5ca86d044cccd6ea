"""What the bus tells people: log events and metrics, with every name in one place."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter

from sagabus_bus.dead_letters import Reason
from sagabus_messages.record import Record
from sagabus_runtime.logs import get_logger

__all__ = ["ConsumerEvents"]

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


class ConsumerEvents:
    """Counts and logs of one consumer group; without a registry it only logs."""

    def __init__(self, group: str, registry: CollectorRegistry | None = None) -> None:
        self._log = get_logger().bind(group=group)
        self._group = group
        self._records = Counter(METRIC_RECORDS, "Records handled", ["group"], registry=registry)
        self._holds = Counter(
            METRIC_HOLDS, "Attempts that met an outage", ["group"], registry=registry
        )
        self._dead = Counter(
            METRIC_DEAD_LETTERS, "Records set aside", ["group", "reason"], registry=registry
        )
        self._lost = Counter(
            METRIC_COMMITS_LOST, "Offset commits that a rebalance refused", ["group"],
            registry=registry,
        )  # fmt: skip

    def handled(self, count: int) -> None:
        """Count records that are durable."""
        self._records.labels(self._group).inc(count)

    def holding(self, count: int, trouble: str, delay_ms: int) -> None:
        """Note an outage: the same records are tried again after the delay."""
        self._holds.labels(self._group).inc()
        self._log.warning(EVENT_HOLDING, records=count, reason=trouble, delay_ms=delay_ms)

    def isolating(self, count: int, error: Exception) -> None:
        """Note that a batch failed for something in it; the search begins."""
        # The text of an unexpected error may quote a payload: only its type is logged.
        self._log.warning(EVENT_ISOLATING, records=count, error=type(error).__name__)

    def dead_lettered(self, record: Record, reason: Reason, attempts: int) -> None:
        """Note a record that is durable among the dead letters."""
        self._dead.labels(self._group, reason.code).inc()
        self._log.error(
            EVENT_DEAD_LETTERED,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason.code,
            attempts=attempts,
        )

    def commit_lost(self, why: str) -> None:
        """Note offsets that a rebalance refused: some records will come again."""
        self._lost.labels(self._group).inc()
        self._log.info(EVENT_COMMIT_LOST, reason=why)

    def unreadable(self, why: str) -> None:
        """Note that the driver cannot decode something it fetched; the search begins."""
        self._log.error(EVENT_UNREADABLE, reason=why)

    def close_failed(self, why: str) -> None:
        """Note a client that did not close in time and was left to its fate."""
        self._log.warning(EVENT_CLOSE_FAILED, reason=why)
