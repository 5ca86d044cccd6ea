"""The words of the wire and of the engine, as closed enumerations."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Control", "Direction", "Phase", "ResultStatus", "SagaStatus", "TerminalStatus"]


class Phase(StrEnum):
    """What a command asks a participant to do."""

    EXECUTE = "EXECUTE"
    CANCEL = "CANCEL"
    COMPENSATE = "COMPENSATE"
    RESOLVE = "RESOLVE"


class ResultStatus(StrEnum):
    """What a participant answers; which phase may answer what is in `ALLOWED_RESULTS`."""

    SUCCEEDED = "SUCCEEDED"
    REJECTED = "REJECTED"
    UNKNOWN = "UNKNOWN"
    HALTED = "HALTED"
    CANCEL_CONFIRMED = "CANCEL_CONFIRMED"
    ALREADY_TERMINAL = "ALREADY_TERMINAL"
    RESOLUTION_PENDING = "RESOLUTION_PENDING"


class TerminalStatus(StrEnum):
    """The outcome that ALREADY_TERMINAL reports."""

    SUCCEEDED = "SUCCEEDED"
    REJECTED = "REJECTED"
    HALTED = "HALTED"


class SagaStatus(StrEnum):
    """Where a saga stands as a whole."""

    RUNNING = "RUNNING"
    CANCELLING = "CANCELLING"
    WAITING_RESOLUTION = "WAITING_RESOLUTION"
    COMPENSATING = "COMPENSATING"
    MANUAL_INTERVENTION = "MANUAL_INTERVENTION"
    COMPLETED = "COMPLETED"
    COMPENSATED = "COMPENSATED"
    MANUALLY_CLOSED = "MANUALLY_CLOSED"

    @property
    def is_terminal(self) -> bool:
        """Whether nothing can ever change this saga again."""
        return self in _TERMINAL


_TERMINAL = frozenset({SagaStatus.COMPLETED, SagaStatus.COMPENSATED, SagaStatus.MANUALLY_CLOSED})


class Control(StrEnum):
    """Whether an operator holds the saga."""

    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"


class Direction(StrEnum):
    """Which way a saga goes."""

    FORWARD = "FORWARD"
    COMPENSATING = "COMPENSATING"


ALLOWED_RESULTS: dict[Phase, frozenset[ResultStatus]] = {
    Phase.EXECUTE: frozenset(
        {
            ResultStatus.SUCCEEDED,
            ResultStatus.REJECTED,
            ResultStatus.UNKNOWN,
            ResultStatus.HALTED,
        }
    ),
    Phase.CANCEL: frozenset(
        {
            ResultStatus.CANCEL_CONFIRMED,
            ResultStatus.ALREADY_TERMINAL,
            ResultStatus.RESOLUTION_PENDING,
        }
    ),
    Phase.COMPENSATE: frozenset(
        {ResultStatus.SUCCEEDED, ResultStatus.UNKNOWN, ResultStatus.HALTED}
    ),
    Phase.RESOLVE: frozenset(
        {
            ResultStatus.SUCCEEDED,
            ResultStatus.REJECTED,
            ResultStatus.UNKNOWN,
            ResultStatus.HALTED,
        }
    ),
}
"""Which statuses a participant may answer to a command of each phase."""
