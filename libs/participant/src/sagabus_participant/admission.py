"""Admission: may this command start a handler, or is the answer already known?

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
        effect = replace(effect, halt=None)
    return _RULES[ask.phase, ask.target](
        rules, activation.replacing(ask.about, effect), ask, expired
    )


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


def _execute(rules: StepRules, activation: Activation, ask: Ask, expired: bool) -> Admission:
    return _apply(rules, activation, ask, expired)


def _compensate(rules: StepRules, activation: Activation, ask: Ask, expired: bool) -> Admission:
    if not rules.has_compensate:
        return Answer(_halted(NO_COMPENSATION), activation)
    return _apply(rules, activation, ask, expired)


def _apply(rules: StepRules, activation: Activation, ask: Ask, expired: bool) -> Admission:
    """Start an effect, or find out what became of the last call: never a guess."""
    call = Call.EXECUTE if ask.phase is Phase.EXECUTE else Call.COMPENSATE
    effect = activation.effect(ask.about)
    in_doubt = effect.state is EffectState.INTENT
    if not in_doubt or (rules.idempotent and not expired):
        if rules.local:
            return Run(call, activation)
        begun = replace(effect, state=EffectState.INTENT, intent_command_id=ask.command_id)
        return Run(call, activation.replacing(ask.about, begun))
    if rules.has_resolve:
        return Run(_resolving(ask.about), activation)
    return Answer(Reply(ResultStatus.UNKNOWN, reason=IN_DOUBT, final=False), activation)


def _cancel(rules: StepRules, activation: Activation, ask: Ask, _expired: bool) -> Admission:
    pending = Reply(ResultStatus.RESOLUTION_PENDING, reason=IN_DOUBT, final=False)
    if rules.retriable:
        return Answer(pending, activation)
    if activation.execute.state is EffectState.NONE:
        return _fence(activation, ask)
    if rules.has_cancel:
        return Run(Call.CANCEL, activation)
    return Answer(pending, activation)


def _resolve_execute(
    rules: StepRules, activation: Activation, ask: Ask, _expired: bool
) -> Admission:
    if activation.execute.state is EffectState.NONE and not rules.retriable:
        return _fence(activation, ask)
    if activation.execute.state is EffectState.INTENT and rules.has_resolve:
        return Run(Call.RESOLVE_EXECUTE, activation)
    return Answer(Reply(ResultStatus.UNKNOWN, reason=IN_DOUBT, final=False), activation)


def _resolve_compensate(
    rules: StepRules, activation: Activation, _ask: Ask, _expired: bool
) -> Admission:
    if activation.compensate.state is EffectState.NONE:
        reply = Reply(ResultStatus.REJECTED, reason=NOT_COMPENSATED, final=False)
        return Answer(reply, activation)
    if rules.has_resolve:
        return Run(Call.RESOLVE_COMPENSATE, activation)
    return Answer(Reply(ResultStatus.UNKNOWN, reason=IN_DOUBT, final=False), activation)


_Rule: TypeAlias = Callable[[StepRules, Activation, Ask, bool], Admission]

_RULES: Final[dict[tuple[Phase, Phase | None], _Rule]] = {
    (Phase.EXECUTE, None): _execute,
    (Phase.CANCEL, None): _cancel,
    (Phase.COMPENSATE, None): _compensate,
    (Phase.RESOLVE, Phase.EXECUTE): _resolve_execute,
    (Phase.RESOLVE, Phase.COMPENSATE): _resolve_compensate,
}
"""What an open activation does with each question."""


def _fence(activation: Activation, ask: Ask) -> Answer:
    # Nothing was ever called: the negative answer and the block of every later EXECUTE become
    # durable in the same transaction.
    fenced = replace(activation, execute=Effect(EffectState.FENCED, reason=NOT_EXECUTED))
    status = ResultStatus.CANCEL_CONFIRMED if ask.phase is Phase.CANCEL else ResultStatus.REJECTED
    reason = None if ask.phase is Phase.CANCEL else NOT_EXECUTED
    return Answer(Reply(status, reason=reason), fenced)


def _halted(reason: Reason) -> Reply:
    return Reply(ResultStatus.HALTED, reason=reason, final=False)


def _still_halted(ask: Ask, reason: Reason) -> Reply:
    if ask.phase is not Phase.CANCEL:
        return _halted(reason)
    return Reply(ResultStatus.ALREADY_TERMINAL, TerminalStatus.HALTED, reason=reason, final=False)


def _resolving(about: Phase) -> Call:
    return Call.RESOLVE_COMPENSATE if about is Phase.COMPENSATE else Call.RESOLVE_EXECUTE
