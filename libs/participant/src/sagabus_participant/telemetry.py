"""Names of log events and metrics of a participant, and its counters."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge

__all__ = ["Meters"]

EVENT_HANDLER_FAILED: Final = "participant.handler_failed"
EVENT_HANDLER_TRANSIENT: Final = "participant.handler_transient"
EVENT_EXPIRED: Final = "participant.command_expired"
EVENT_CONFLICT: Final = "participant.outcome_conflict"
EVENT_RECEIPT_DELAYED: Final = "participant.receipt_delayed"
EVENT_WORK_FAILED: Final = "participant.work_failed"

METRIC_COMMANDS: Final = "sagabus_participant_commands"
METRIC_EXPIRED: Final = "sagabus_participant_expired"
METRIC_RETRIES: Final = "sagabus_participant_retries"
METRIC_CONFLICTS: Final = "sagabus_participant_conflicts"
METRIC_LATE: Final = "sagabus_participant_late_answers"
METRIC_BACKLOG: Final = "sagabus_participant_backlog"


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
        self.backlog = Gauge(METRIC_BACKLOG, "Commands that wait for a worker", registry=registry)
