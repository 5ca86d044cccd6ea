"""Names of log events and metrics of a participant, and its counters."""

from __future__ import annotations

from collections import Counter as Counts
from typing import Final, TypeAlias

from prometheus_client import CollectorRegistry, Counter, Gauge

from sagabus_runtime.metrics import LatencyHistogram

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
ATTRIBUTE_OUTBOX_MS: Final = "outbox_ms"
"""From the write of the command to Kafka."""
ATTRIBUTE_WAITED_MS: Final = "waited_ms"
"""From Kafka to the call: lag, batch, queue of the workers."""

METRIC_COMMANDS: Final = "sagabus_participant_commands"
METRIC_EXPIRED: Final = "sagabus_participant_expired"
METRIC_RETRIES: Final = "sagabus_participant_retries"
METRIC_CONFLICTS: Final = "sagabus_participant_conflicts"
METRIC_LATE: Final = "sagabus_participant_late_answers"
METRIC_SLOW: Final = "sagabus_participant_slow_calls"
METRIC_FORGOTTEN: Final = "sagabus_participant_forgotten"
METRIC_BACKLOG: Final = "sagabus_participant_backlog"
METRIC_BEHIND: Final = "sagabus_participant_behind_seconds"
METRIC_IN_HAND: Final = "sagabus_participant_calls_in_hand"
METRIC_CALL: Final = "sagabus_participant_call_seconds"


Tally: TypeAlias = Counts[tuple[str, ...]]
"""What a transaction is about to have done: how often, by the attribute of `Meters` and labels."""


class Meters:
    """The counters of one participant."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, meaning: str, *labels: str) -> Counter:
            return Counter(name, meaning, labels, registry=registry)

        def gauge(name: str, meaning: str) -> Gauge:
            return Gauge(name, meaning, registry=registry)

        self.commands = counter(METRIC_COMMANDS, "Answered commands", "step", "phase", "status")
        self.expired = counter(
            METRIC_EXPIRED, "Commands that came too late to start", "step", "phase"
        )
        self.retries = counter(METRIC_RETRIES, "Handler calls that will be repeated", "step")
        self.conflicts = counter(METRIC_CONFLICTS, "Outcomes that contradict the journal", "step")
        self.late = counter(METRIC_LATE, "Answers given after their command expired", "step")
        self.slow = counter(
            METRIC_SLOW, "Handler calls that took longer than their step allows", "step", "call"
        )
        self.forgotten = counter(METRIC_FORGOTTEN, "Activations whose journal was removed")
        self.backlog = gauge(
            METRIC_BACKLOG, "Commands for workers: waiting or in hand (up to a bound)"
        )
        self.behind = gauge(METRIC_BEHIND, "How long the first command that waits has been due")
        self.in_hand = gauge(METRIC_IN_HAND, "Commands that workers of this process have leased")
        self.call_seconds = LatencyHistogram(
            METRIC_CALL, "Calls of handlers", ["step", "call"], registry=registry
        )

    def add(self, tally: Tally) -> None:
        """Count what a transaction has done; call it once that has committed."""
        for (name, *labels), times in tally.items():
            counter: Counter = getattr(self, name)
            counter.labels(*labels).inc(times)
