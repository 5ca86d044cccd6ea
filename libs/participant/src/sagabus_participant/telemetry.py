"""Names of log events and metrics of a participant, and its counters."""

from __future__ import annotations

from collections import Counter as Counts
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["Meters", "Tally"]

EVENT_HANDLER_FAILED: Final = "participant.handler_failed"
EVENT_HANDLER_TRANSIENT: Final = "participant.handler_transient"
EVENT_BATCH_FAILED: Final = "participant.batch_failed"
EVENT_HANDLER_SLOW: Final = "participant.handler_slow"
EVENT_EXPIRED: Final = "participant.command_expired"
EVENT_CONFLICT: Final = "participant.outcome_conflict"
EVENT_RECEIPT_DELAYED: Final = "participant.receipt_delayed"
EVENT_EMBEDDED_CRASHED: Final = "participant.embedded_crashed"
EVENT_WORK_FAILED: Final = "participant.work_failed"

SPAN_HANDLER: Final = "participant.handle"
ATTRIBUTE_STEP: Final = "step"
ATTRIBUTE_ATTEMPT: Final = "attempt"
ATTRIBUTE_CALL: Final = "call"
ATTRIBUTE_COMMANDS: Final = "commands"

METRIC_COMMANDS: Final = "sagabus_participant_commands"
METRIC_EXPIRED: Final = "sagabus_participant_expired"
METRIC_RETRIES: Final = "sagabus_participant_retries"
METRIC_CONFLICTS: Final = "sagabus_participant_conflicts"
METRIC_LATE: Final = "sagabus_participant_late_answers"
METRIC_SLOW: Final = "sagabus_participant_slow_calls"
METRIC_FORGOTTEN: Final = "sagabus_participant_forgotten"
METRIC_BACKLOG: Final = "sagabus_participant_backlog"


Tally: TypeAlias = Counts[tuple[str, ...]]
"""What a transaction is about to have done: how often, by the attribute of `Meters` and labels."""


class Meters:
    """The counters of one participant."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.commands = Counter(
            METRIC_COMMANDS, "Answered commands", ["step", "phase", "status"], registry=registry
        )
        self.expired = Counter(
            METRIC_EXPIRED,
            "Commands that came too late to start",
            ["step", "phase"],
            registry=registry,
        )
        self.retries = Counter(
            METRIC_RETRIES, "Handler calls that will be repeated", ["step"], registry=registry
        )
        self.conflicts = Counter(
            METRIC_CONFLICTS, "Outcomes that contradict the journal", ["step"], registry=registry
        )
        self.late = Counter(
            METRIC_LATE, "Answers given after their command expired", ["step"], registry=registry
        )
        self.slow = Counter(
            METRIC_SLOW,
            "Handler calls that took longer than their step allows",
            ["step", "call"],
            registry=registry,
        )
        self.forgotten = Counter(
            METRIC_FORGOTTEN, "Activations whose journal was removed", registry=registry
        )
        self.backlog = Gauge(METRIC_BACKLOG, "Commands that wait for a worker", registry=registry)

    def add(self, tally: Tally) -> None:
        """Count what a transaction has done; call it once that has committed."""
        for (name, *labels), times in tally.items():
            counter: Counter = getattr(self, name)
            counter.labels(*labels).inc(times)
