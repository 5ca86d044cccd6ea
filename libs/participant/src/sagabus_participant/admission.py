"""Admission: whether a command may start a handler, or its answer is already known.

A plain function of the journal, the command and the time. The caller holds the lock of the
activation, and makes what is returned durable before anything is answered or called.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias

from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_participant.journal import (
    Activation,
    Ask,
    Effect,
    EffectState,
    Reason,
    Reply,
    StepRules,
)

__all__ = ["Admission", "Answer", "Call", "Ignore", "Ignored", "Run", "admit", "known_reply"]


class Call(StrEnum):
    """Which handler is to be called, and about which effect."""

    EXECUTE = "EXECUTE"
    COMPENSATE = "COMPENSATE"
    CANCEL = "CANCEL"
    RESOLVE_EXECUTE = "RESOLVE_EXECUTE"
    RESOLVE_COMPENSATE = "RESOLVE_COMPENSATE"

    @property
    def applies(self) -> bool:
        """Whether the call applies an effect; the others only ask or prevent."""
        return self in {Call.EXECUTE, Call.COMPENSATE}

    @property
    def about(self) -> Phase:
        """The effect that is applied, prevented or asked about."""
        undoing = self in {Call.COMPENSATE, Call.RESOLVE_COMPENSATE}
        return Phase.COMPENSATE if undoing else Phase.EXECUTE


class Ignored(StrEnum):
    """Why a command is neither run nor answered."""

    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Run:
    """Call the handler; `activation` must be durable before, with the intent where one is due."""

    call: Call
    activation: Activation


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer without calling anything; `activation` becomes durable with the answer."""

    reply: Reply
    activation: Activation


@dataclass(frozen=True, slots=True)
class Ignore:
    """Do nothing, count it."""

    why: Ignored


Admission: TypeAlias = Run | Answer | Ignore

FENCED: Final = Reason("fenced", "a later question already got a negative answer")
NOT_EXECUTED: Final = Reason("not_executed", "never started, and now never will be")
IN_DOUBT: Final = Reason("outcome_in_doubt", "an earlier call has no receipt")
NOTHING_TO_COMPENSATE: Final = Reason("nothing_to_compensate", "no success is recorded")
NO_COMPENSATION: Final = Reason("compensation_not_supported", "the step has no compensate handler")
NOT_COMPENSATED: Final = Reason("not_compensated", "the undo did not happen")


def admit(
    rules: StepRules, activation: Activation, ask: Ask, past: Reply | None, now_ms: int
) -> Admission:
    """Decide about a command.

    `past` is the remembered answer to this very command id. An expired command never starts and
    answers nothing; only one whose own call is in doubt is still finished, without calling again.
    """
    effect = activation.effect(ask.about)
    expired = now_ms >= ask.expires_at_ms
    if expired and effect.intent_command_id != ask.command_id:
        return Ignore(Ignored.EXPIRED)
    known = known_reply(activation, ask)
    if known is not None:
        return Answer(known, activation)
    if past is not None:
        return Answer(past, activation)
    if ask.about is Phase.COMPENSATE and activation.execute.state is not EffectState.SUCCEEDED:
        return Answer(_halted(NOTHING_TO_COMPENSATE), activation)
    if effect.halt is not None:
        if ask.recovery_operation_id in {None, effect.halt.recovery_operation_id}:
            return Answer(_still_halted(ask, effect.halt.reason), activation)
        activation = activation.replacing(ask.about, replace(effect, halt=None))
    return _RULES[ask.phase, ask.target](_Case(rules, activation, ask, expired))


def known_reply(activation: Activation, ask: Ask) -> Reply | None:
    """Return what the journal answers to this command for ever, or None while it is open."""
    effect = activation.effect(ask.about)
    status = _KNOWN.get((ask.phase, effect.state))
    if status is None:
        return None
    if status is ResultStatus.ALREADY_TERMINAL:
        terminal = TerminalStatus(effect.state.value)
        return Reply(status, terminal, reason=effect.reason, output=effect.output)
    if effect.state is EffectState.FENCED:
        reason = FENCED if ask.phase is Phase.EXECUTE else effect.reason
        return Reply(status, reason=None if ask.phase is Phase.CANCEL else reason)
    return Reply(status, reason=effect.reason, output=effect.output)


_KNOWN: Final[dict[tuple[Phase, EffectState], ResultStatus]] = {
    (Phase.EXECUTE, EffectState.SUCCEEDED): ResultStatus.SUCCEEDED,
    (Phase.EXECUTE, EffectState.REJECTED): ResultStatus.REJECTED,
    (Phase.EXECUTE, EffectState.FENCED): ResultStatus.REJECTED,
    (Phase.CANCEL, EffectState.SUCCEEDED): ResultStatus.ALREADY_TERMINAL,
    (Phase.CANCEL, EffectState.REJECTED): ResultStatus.ALREADY_TERMINAL,
    (Phase.CANCEL, EffectState.FENCED): ResultStatus.CANCEL_CONFIRMED,
    (Phase.RESOLVE, EffectState.SUCCEEDED): ResultStatus.SUCCEEDED,
    (Phase.RESOLVE, EffectState.REJECTED): ResultStatus.REJECTED,
    (Phase.RESOLVE, EffectState.FENCED): ResultStatus.REJECTED,
    (Phase.COMPENSATE, EffectState.SUCCEEDED): ResultStatus.SUCCEEDED,
}
"""Settled outcomes and what they answer. An undo is never settled REJECTED or FENCED."""


@dataclass(frozen=True, slots=True)
class _Case:
    """An open activation and the question to it."""

    rules: StepRules
    activation: Activation
    ask: Ask
    expired: bool

    @property
    def in_doubt(self) -> bool:
        """Whether something outside was called and the receipt is missing."""
        return self.activation.effect(self.ask.about).state is EffectState.INTENT


def _compensate(case: _Case) -> Admission:
    if not case.rules.has_compensate:
        return Answer(_halted(NO_COMPENSATION), case.activation)
    return _apply(case)


def _apply(case: _Case) -> Admission:
    """Start an effect, or find out what became of the last call: never a guess."""
    about, rules = case.ask.about, case.rules
    if case.in_doubt and (case.expired or not rules.idempotent):
        return _look_up(case)
    call = Call.EXECUTE if about is Phase.EXECUTE else Call.COMPENSATE
    if rules.local:
        return Run(call, case.activation)
    begun = replace(
        case.activation.effect(about),
        state=EffectState.INTENT,
        intent_command_id=case.ask.command_id,
    )
    return Run(call, case.activation.replacing(about, begun))


def _look_up(case: _Case) -> Admission:
    if case.rules.has_resolve and case.in_doubt:
        undoing = case.ask.about is Phase.COMPENSATE
        call = Call.RESOLVE_COMPENSATE if undoing else Call.RESOLVE_EXECUTE
        return Run(call, case.activation)
    unknown = Reply(ResultStatus.UNKNOWN, reason=IN_DOUBT, final=False)
    return Answer(unknown, case.activation)


def _cancel(case: _Case) -> Admission:
    if not case.in_doubt and not case.rules.retriable:
        return _fence(case)
    if case.in_doubt and case.rules.has_cancel:
        return Run(Call.CANCEL, case.activation)
    pending = Reply(ResultStatus.RESOLUTION_PENDING, reason=IN_DOUBT, final=False)
    return Answer(pending, case.activation)


def _resolve_execute(case: _Case) -> Admission:
    if not case.in_doubt and not case.rules.retriable:
        return _fence(case)
    return _look_up(case)


def _resolve_compensate(case: _Case) -> Admission:
    if case.in_doubt:
        return _look_up(case)
    undone_not = Reply(ResultStatus.REJECTED, reason=NOT_COMPENSATED, final=False)
    return Answer(undone_not, case.activation)


_Rule: TypeAlias = Callable[[_Case], Admission]

_RULES: Final[dict[tuple[Phase, Phase | None], _Rule]] = {
    (Phase.EXECUTE, None): _apply,
    (Phase.CANCEL, None): _cancel,
    (Phase.COMPENSATE, None): _compensate,
    (Phase.RESOLVE, Phase.EXECUTE): _resolve_execute,
    (Phase.RESOLVE, Phase.COMPENSATE): _resolve_compensate,
}
"""What an open activation does with each question."""


def _fence(case: _Case) -> Answer:
    # Nothing was ever called: the negative answer and the block of every later EXECUTE become
    # durable in the same transaction.
    fenced = Effect(EffectState.FENCED, reason=NOT_EXECUTED)
    after = replace(case.activation, execute=fenced)
    if case.ask.phase is Phase.CANCEL:
        return Answer(Reply(ResultStatus.CANCEL_CONFIRMED), after)
    return Answer(Reply(ResultStatus.REJECTED, reason=NOT_EXECUTED), after)


def _halted(reason: Reason) -> Reply:
    return Reply(ResultStatus.HALTED, reason=reason, final=False)


def _still_halted(ask: Ask, reason: Reason) -> Reply:
    if ask.phase is not Phase.CANCEL:
        return _halted(reason)
    return Reply(ResultStatus.ALREADY_TERMINAL, TerminalStatus.HALTED, reason=reason, final=False)
