"""What the orchestrator tells its operators: metrics and log lines after each commit."""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Mapping
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge

from sagabus_bus import Reason, record_fields
from sagabus_core.engine import MetricName
from sagabus_core.engine.reasons import CONFLICTS
from sagabus_messages import Record
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.signals import OPERATION
from sagabus_orchestrator.works import SweepWork
from sagabus_runtime import BoundedLabel, LatencyHistogram, get_logger
from sagabus_runtime.metrics import OTHER
from sagabus_runtime.telemetry import Tracing, log_fields

__all__ = ["OrchestratorEvents"]

log = get_logger()

DURATION_BUCKETS: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 21_600, 86_400)
"""Seconds: some sagas end in a moment, others wait for people."""

Tally: TypeAlias = Counts[tuple[Counter, tuple[str, ...]]]
"""What a transaction adds to which counter under which labels."""


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


class _SagaMetrics:
    """What becomes of sagas: counted after each commit, by labels that definitions bound."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        self.workflow = BoundedLabel()
        self._started = counter("sagabus_saga_starts", "Sagas that began", "workflow")
        self._refused = counter(
            "sagabus_saga_starts_refused",
            "Starts that created nothing, by the code that their senders were told",
            "code",
        )
        self._transitions = counter(
            "sagabus_saga_transitions",
            "Decisions that changed a saga, by workflow and status afterwards",
            *("workflow", "status"),
        )
        self._interventions = counter(
            "sagabus_saga_interventions",
            "Sagas that came to need a person, by the first reason",
            *("workflow", "reason"),
        )
        self._commands = counter("sagabus_saga_commands", "Commands issued", "participant", "phase")
        self._results = counter(
            "sagabus_saga_results",
            "Results that reached their saga",
            *("participant", "phase", "status"),
        )
        self._duration = LatencyHistogram(
            "sagabus_saga_duration_seconds",
            "From the start of a saga to its end; its count is the number of sagas that ended",
            ("workflow", "status"),
            registry=registry,
            buckets=DURATION_BUCKETS,
        )

    def count(self, outcome: Outcome, now_s: float) -> None:
        """Count what a committed transaction did to sagas."""
        # Added up first: a label look-up of the library costs more than all of this per saga.
        tally: Tally = Counts()
        for entry in outcome.entries:
            if entry.changed:
                self._count_entry(entry, now_s, tally)
        for work in outcome.results:
            participant = work.meta.topic.participant or OTHER
            tally[self._results, (participant, work.body.phase, work.body.status)] += 1
        for code, count in outcome.refused.items():
            tally[self._refused, (code,)] += count
        for (counter, labels), count in tally.items():
            counter.labels(*labels).inc(count)

    def _count_entry(self, entry: Entry, now_s: float, tally: Tally) -> None:
        saga = entry.snapshot
        workflow = self.workflow(saga.workflow)
        tally[self._transitions, (workflow, saga.status)] += 1
        if entry.is_new:
            tally[self._started, (workflow,)] += 1
        for command in entry.issued:
            tally[self._commands, (command.participant, command.phase)] += 1
        if entry.needs_person:
            reason = next(iter(saga.reasons.values()), "none")
            tally[self._interventions, (workflow, reason)] += 1
        if entry.ended:
            began_s = now_s if entry.created_at is None else entry.created_at.timestamp()
            self._duration.observe((workflow, saga.status.value), now_s - began_s)


class OrchestratorEvents:
    """Metrics with bounded labels, spans, logs; saga ids go to the last two, never to a label."""

    def __init__(self, registry: CollectorRegistry, tracing: Tracing | None = None) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def by_kind(name: str, meaning: str) -> Gauge:
            return Gauge(name, meaning, ("kind",), registry=registry)

        self.tracing = tracing or Tracing()
        self._sagas = _SagaMetrics(registry)
        self._recovery = _RecoveryGauges(registry)
        self._signals = counter(
            "sagabus_engine_signals",
            "Conflicts, retries and other signals of the engine",
            *("signal", "label"),
        )
        for reason in CONFLICTS:  # an increase is seen only of a series that was there before
            self._signals.labels(MetricName.CONFLICT, reason)
        self._operations = counter(
            "sagabus_operations", "Management operations that were done, by kind", "kind"
        )
        self._swept = counter(
            "sagabus_orchestrator_swept",
            "Sagas whose wake-up never came and that the sweep decided in its place",
        )
        self._messages = counter(
            "sagabus_orchestrator_messages",
            "Messages that changed no saga, by what became of them",
            "outcome",
        )
        self._letters_open = by_kind(
            "sagabus_dead_letters_open",
            "Dead letters that wait for an operator, by kind of record (counted up to a bound)",
        )
        self._letters_age = by_kind(
            "sagabus_dead_letters_oldest_seconds", "How long the oldest of them has waited"
        )

    def early(self, mode: RecoveryMode, waiting: int, oldest_s: float) -> None:
        """Show the mode and what waits; what is left once nothing is replayed needs a person."""
        self._recovery.show(mode, waiting, oldest_s)

    def signalled(self, signals: Mapping[tuple[str, str], int]) -> None:
        """Count operations, and what the engine signalled during them."""
        for (name, label), count in signals.items():
            if name == OPERATION:
                self._operations.labels(label).inc(count)
            else:
                self._signal(name, label, count)

    def settled(self, outcome: Outcome) -> None:
        """Count what a committed transaction did."""
        self._sagas.count(outcome, time.time())
        for entry in outcome.entries:
            entry.end_spans()
            if entry.changed and entry.archived:
                self._messages.labels("recorded_in_archive").inc()
                log.warning("orchestrator.late_for_archived", **_fields(entry))
            if entry.needs_person:
                reasons = sorted({reason.value for reason in entry.snapshot.reasons.values()})
                log.warning("orchestrator.needs_person", reasons=reasons, **_fields(entry))
            for metric in entry.metrics:
                self._signal(metric.name, metric.label)
        for name, count in (
            ("repeated", outcome.repeats),
            ("refused", outcome.refused.total()),
            ("deferred", len(outcome.deferred)),
            ("early", len(outcome.early)),
        ):
            if count:
                self._messages.labels(name).inc(count)
        for item in outcome.rejected:
            self.dead_lettered(item.record, item.reason)

    def _signal(self, name: str, label: str, count: int = 1) -> None:
        if name == MetricName.DEADLINE_PASSED:  # its label is the workflow
            label = self._sagas.workflow(label)
        self._signals.labels(name, label).inc(count)

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
            **record_fields(record.headers),
        )

    def swept(self, sagas: int) -> None:
        """Count and log wake-ups that never came: the timer is late, away, or lost them."""
        self._swept.inc(sagas)
        log.warning("orchestrator.wakeups_missing", sagas=sagas)

    def letters_open(self, kind: str, count: int, oldest_s: float) -> None:
        """Publish how many dead letters of a kind wait for an operator, and for how long."""
        self._letters_open.labels(kind).set(count)
        self._letters_age.labels(kind).set(oldest_s)

    def sweep_failed(self, work: SweepWork, error: Exception) -> None:
        """Count and log a saga that the sweep could not decide: a defect that needs a person."""
        self._messages.labels("sweep_failed").inc()
        fields = log_fields(work.saga_id, work.traceparent)
        log.error("orchestrator.sweep_failed", error=type(error).__name__, **fields)


def _fields(entry: Entry) -> dict[str, str]:
    return log_fields(entry.snapshot.saga_id, entry.traceparent)
