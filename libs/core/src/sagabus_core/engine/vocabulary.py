"""Words of the engine that never travel on the wire.

What every transition passes binds the members that it needs as constants of its module: until
Python 3.12 a member that is looked up in its class costs as much as three calls.
"""

from __future__ import annotations

from enum import StrEnum

from sagabus_core.vocabulary import Phase

__all__ = [
    "CHANNELS",
    "UNDO_CHANNELS",
    "Channel",
    "ForwardState",
    "ManualReason",
    "MemberState",
    "OperationKind",
    "TriggerKind",
]


class ForwardState(StrEnum):
    """Where an activation stands. SKIPPED is never stored: it follows from the chosen branches."""

    PENDING = "PENDING"
    EXECUTING = "EXECUTING"
    CANCELLING = "CANCELLING"
    RESOLVING = "RESOLVING"
    SUCCEEDED = "SUCCEEDED"
    REJECTED = "REJECTED"
    CANCELLED = "CANCELLED"
    SKIPPED = "SKIPPED"


class MemberState(StrEnum):
    """Where a member of the compensation plan stands."""

    PENDING = "PENDING"
    COMPENSATING = "COMPENSATING"
    RESOLVING = "RESOLVING"
    COMPENSATED = "COMPENSATED"


class Channel(StrEnum):
    """A phase with its target: attempts are counted per activation and channel."""

    EXECUTE = "E"
    CANCEL = "C"
    COMPENSATE = "K"
    RESOLVE_EXECUTE = "RE"
    RESOLVE_COMPENSATE = "RK"

    @property
    def phase(self) -> Phase:
        """The phase of the commands of this channel."""
        return _PHASES[self][0]

    @property
    def target(self) -> Phase | None:
        """What a RESOLVE of this channel asks about; None for every other phase."""
        return _PHASES[self][1]


_PHASES: dict[Channel, tuple[Phase, Phase | None]] = {
    Channel.EXECUTE: (Phase.EXECUTE, None),
    Channel.CANCEL: (Phase.CANCEL, None),
    Channel.COMPENSATE: (Phase.COMPENSATE, None),
    Channel.RESOLVE_EXECUTE: (Phase.RESOLVE, Phase.EXECUTE),
    Channel.RESOLVE_COMPENSATE: (Phase.RESOLVE, Phase.COMPENSATE),
}

CHANNELS: dict[tuple[Phase, Phase | None], Channel] = {
    pair: channel for channel, pair in _PHASES.items()
}
"""The channel of a (phase, target) as it stands on the wire."""

UNDO_CHANNELS = frozenset({Channel.COMPENSATE, Channel.RESOLVE_COMPENSATE})
"""Channels that speak about a plan member instead of a forward activation."""


class ManualReason(StrEnum):
    """Why a person has to decide; `reasons.py` lists the exits of each."""

    STEP_HALTED = "step_halted"
    UNKNOWN_NOT_ALLOWED = "unknown_not_allowed"
    CANCEL_ATTEMPTS_EXHAUSTED = "cancel_attempts_exhausted"
    RETRIABLE_ATTEMPTS_EXHAUSTED = "retriable_attempts_exhausted"
    RESOLVE_ATTEMPTS_EXHAUSTED = "resolve_attempts_exhausted"
    RESOLUTION_BUDGET_EXHAUSTED = "resolution_budget_exhausted"
    RESOLUTION_HALTED = "resolution_halted"
    COMPENSATION_HALTED = "compensation_halted"
    COMPENSATION_ATTEMPTS_EXHAUSTED = "compensation_attempts_exhausted"
    CONDITION_ERROR = "condition_error"
    COMMAND_PAYLOAD_INVALID = "command_payload_invalid"
    OUTPUT_CONTRACT_MISMATCH = "output_contract_mismatch"
    ATTEMPT_OUTCOME_CONFLICT = "attempt_outcome_conflict"
    CROSS_PHASE_FACT_CONFLICT = "cross_phase_fact_conflict"
    COMPENSATION_PLAN_DRIFT = "compensation_plan_drift"


class OperationKind(StrEnum):
    """A management operation; also the name of its permission, except for `retry`."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"
    RECORD_OUTCOME = "record_outcome"
    MANUAL_CLOSE = "manual_close"


class TriggerKind(StrEnum):
    """What made the engine decide."""

    START = "start"
    RESULT = "result"
    WAKEUP = "wakeup"
    SWEEP = "sweep"
    OPERATION = "operation"
