"""What a participant remembers about one activation, and what it may answer: plain values.

An activation owns two real-world effects: the one that EXECUTE applies and the one that COMPENSATE
applies to undo it. CANCEL and RESOLVE have no effect of their own; they ask about one of these.

The *fence* is a settled negative outcome: FENCED or REJECTED. Admission replays what is settled
instead of running a handler, so once one of them is durable no later EXECUTE can start.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus

__all__ = [
    "Activation",
    "Ask",
    "Effect",
    "EffectState",
    "Finding",
    "Found",
    "Halt",
    "Reason",
    "Reply",
    "StepRules",
]


class EffectState(StrEnum):
    """How far an effect has come; the last three are settled and never change again."""

    NONE = "NONE"
    INTENT = "INTENT"
    SUCCEEDED = "SUCCEEDED"
    REJECTED = "REJECTED"
    FENCED = "FENCED"

    @property
    def is_settled(self) -> bool:
        """Whether this outcome is definitive: replayed for ever, never run again."""
        return self not in {EffectState.NONE, EffectState.INTENT}


@dataclass(frozen=True, slots=True)
class Reason:
    """A stable code for programs and one sentence for people."""

    code: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Halt:
    """The participant will not go on by itself; a recovery operation with another id re-opens."""

    reason: Reason
    recovery_operation_id: str | None


@dataclass(frozen=True, slots=True)
class Effect:
    """The journal of one effect id.

    `intent_command_id` names the command under which something outside was called last; it stays
    while the outcome is in doubt.
    """

    state: EffectState = EffectState.NONE
    reason: Reason | None = None
    output: Payload | None = None
    intent_command_id: str | None = None
    halt: Halt | None = None


@dataclass(frozen=True, slots=True)
class Activation:
    """Both effects of one activation of a step."""

    execute: Effect = Effect()
    compensate: Effect = Effect()

    def effect(self, about: Phase) -> Effect:
        """Return the effect of EXECUTE or of COMPENSATE."""
        return self.compensate if about is Phase.COMPENSATE else self.execute

    def replacing(self, about: Phase, effect: Effect) -> Activation:
        """Return this activation with another effect in the place of that one."""
        if about is Phase.COMPENSATE:
            return Activation(self.execute, effect)
        return Activation(effect, self.compensate)


@dataclass(frozen=True, slots=True)
class StepRules:
    """What the registration of a step says, as far as admission depends on it.

    `local`: the handler runs inside the journal's own transaction, so that no intent is needed.
    `idempotent`: calling again with the same idempotency key applies the effect once.
    """

    local: bool
    retriable: bool = False
    idempotent: bool = False
    has_compensate: bool = True
    has_cancel: bool = False
    has_resolve: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """The part of a command on which admission depends; times in epoch milliseconds."""

    command_id: str
    phase: Phase
    target: Phase | None
    expires_at_ms: int
    recovery_operation_id: str | None = None

    @property
    def about(self) -> Phase:
        """The effect in question: COMPENSATE, or EXECUTE for everything else."""
        undo = Phase.COMPENSATE
        return undo if self.phase is undo or self.target is undo else Phase.EXECUTE


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a command.

    A `final` one is derived from the journal whenever it is asked for; any other is remembered
    under its command id, so that the same command always hears the same.
    """

    status: ResultStatus
    terminal_status: TerminalStatus | None = None
    reason: Reason | None = None
    output: Payload | None = None
    final: bool = True


class Found(StrEnum):
    """What came of calling a handler."""

    SUCCEEDED = "SUCCEEDED"
    REJECTED = "REJECTED"
    UNKNOWN = "UNKNOWN"
    HALTED = "HALTED"
    CONFIRMED = "CONFIRMED"
    PENDING = "PENDING"
    TRANSIENT = "TRANSIENT"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True)
class Finding:
    """A handler's answer or failure, without the handler's types."""

    kind: Found
    reason: Reason | None = None
    output: Payload | None = None
