"""What the orchestrator tells its operators: metrics and log lines after each commit."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge

from sagabus_bus import Reason
from sagabus_messages import Record
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_runtime import get_logger

__all__ = ["OrchestratorEvents"]

log = get_logger()


class _RecoveryGauges:
    """The mode of a replica and the answers that wait for their commands."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._mode = Gauge(
            "sagabus_recovery_mode",
            "1 for the mode in which the replica runs",
            ("mode",),
            registry=registry,
        )
        self._early = Gauge(
            "sagabus_early_results",
            "Answers that wait for a command which this database never issued",
            registry=registry,
        )
        self._early_age = Gauge(
            "sagabus_early_results_age_seconds",
            "How long the oldest of them has waited",
            registry=registry,
        )
        self._told: tuple[RecoveryMode, int] | None = None

    def show(self, mode: RecoveryMode, waiting: int, oldest_s: float) -> None:
        """Set the gauges; tell in the log what has changed."""
        for each in RecoveryMode:
            self._mode.labels(each).set(each is mode)
        self._early.set(waiting)
        self._early_age.set(oldest_s)
        if self._told != (mode, waiting) and (waiting or mode is not RecoveryMode.OFF):
            tell = log.warning if mode is RecoveryMode.OFF else log.info
            tell("orchestrator.early_results", mode=mode.value, waiting=waiting)
        self._told = (mode, waiting)


class OrchestratorEvents:
    """Counters with bounded labels; saga ids go to the log, never to a label."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._transitions = Counter(
            "sagabus_saga_transitions",
            "Decisions that changed a saga, by workflow and status afterwards",
            ("workflow", "status"),
            registry=registry,
        )
        self._signals = Counter(
            "sagabus_engine_signals",
            "Conflicts, retries and other signals of the engine",
            ("signal", "label"),
            registry=registry,
        )
        self._swept = Counter(
            "sagabus_orchestrator_swept",
            "Sagas whose wake-up never came and that the sweep decided in its place",
            registry=registry,
        )
        self._messages = Counter(
            "sagabus_orchestrator_messages",
            "Messages that changed no saga, by what became of them",
            ("outcome",),
            registry=registry,
        )
        self._recovery = _RecoveryGauges(registry)
        self._letters_open = Gauge(
            "sagabus_dead_letters_open",
            "Dead letters that wait for an operator, by kind of record",
            ("kind",),
            registry=registry,
        )

    def early(self, mode: RecoveryMode, waiting: int, oldest_s: float) -> None:
        """Show the mode and what waits; what is left once nothing is replayed needs a person."""
        self._recovery.show(mode, waiting, oldest_s)

    def signalled(self, signals: Mapping[tuple[str, str], int]) -> None:
        """Count what the engine signalled during operations."""
        for (name, label), count in signals.items():
            self._signals.labels(name, label).inc(count)

    def settled(self, outcome: Outcome) -> None:
        """Count what a committed transaction did."""
        for entry in outcome.entries:
            if entry.changed:
                saga = entry.snapshot
                self._transitions.labels(saga.workflow, saga.status).inc()
                if entry.archived:
                    self._messages.labels("recorded_in_archive").inc()
                    log.warning("orchestrator.late_for_archived", saga_id=saga.saga_id)
            for metric in entry.metrics:
                self._signals.labels(metric.name, metric.label).inc()
        for name, count in (
            ("repeated", outcome.repeats),
            ("refused", outcome.refused),
            ("deferred", len(outcome.deferred)),
            ("early", len(outcome.early)),
        ):
            if count:
                self._messages.labels(name).inc(count)
        for item in outcome.rejected:
            self.dead_lettered(item.record, item.reason)

    def dead_lettered(self, record: Record, reason: Reason) -> None:
        """Count and log one dead letter, which is always worth a line."""
        self._messages.labels("dead_lettered").inc()
        log.warning(
            "orchestrator.dead_letter",
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            reason=reason.code,
            detail=reason.detail,
        )

    def swept(self, sagas: int) -> None:
        """Count and log wake-ups that never came: the timer is late, away, or lost them."""
        self._swept.inc(sagas)
        log.warning("orchestrator.wakeups_missing", sagas=sagas)

    def letters_open(self, kind: str, count: int) -> None:
        """Publish how many dead letters of a kind wait for an operator."""
        self._letters_open.labels(kind).set(count)

    def sweep_failed(self, saga_id: str, error: Exception) -> None:
        """Count and log a saga that the sweep could not decide: a defect that needs a person."""
        self._messages.labels("sweep_failed").inc()
        log.error("orchestrator.sweep_failed", saga_id=saga_id, error=type(error).__name__)
