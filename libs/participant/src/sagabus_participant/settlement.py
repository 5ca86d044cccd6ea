"""Settlement: what a handler's answer, or its failure, makes of the journal and of the command.

A plain function of the journal *as it is now* (a RESOLVE, a CANCEL or a callback may have settled
the effect while the handler ran), the command, the call and what was found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_participant.admission import Call, known_reply
from sagabus_participant.journal import (
    Activation,
    Ask,
    Effect,
    EffectState,
    Finding,
    Found,
    Halt,
    Reason,
    Reply,
    StepRules,
)

__all__ = ["Later", "Settled", "Settlement", "settle"]


@dataclass(frozen=True, slots=True)
class Settled:
    """The command is answered.

    `conflict`: the outside says the contrary of what is settled already. The journal keeps the
    first fact and the answer carries the second, so that the orchestrator sees both.
    """

    activation: Activation
    reply: Reply
    conflict: bool = False


@dataclass(frozen=True, slots=True)
class Later:
    """No answer yet: admit the command again, at once or after a back-off."""

    activation: Activation
    at_once: bool = False


Settlement: TypeAlias = Settled | Later

UNEXPLAINED: Final = Reason("unexplained", "the handler gave no reason")


def settle(
    rules: StepRules, activation: Activation, ask: Ask, call: Call, finding: Finding
) -> Settlement:
    """Return the journal after a call, and the answer to the command that caused the call."""
    about = call.about
    known = known_reply(activation, ask)
    if known is not None:
        if not rules.retriable and _contradicts(activation.effect(about), about, finding.kind):
            return Settled(activation, _raw(ask, finding), conflict=True)
        return Settled(activation, known)
    return _open(rules, activation, ask, call, finding)


def _open(
    rules: StepRules, activation: Activation, ask: Ask, call: Call, finding: Finding
) -> Settlement:
    about = call.about
    result: Settlement
    match finding.kind:
        case Found.SUCCEEDED:
            done = Effect(EffectState.SUCCEEDED, output=finding.output)
            result = _final(activation, ask, about, done)
        case Found.REJECTED:
            result = _rejected(rules, activation, ask, call, finding)
        case Found.CONFIRMED:
            fenced = Effect(EffectState.FENCED, reason=finding.reason or UNEXPLAINED)
            result = _final(activation, ask, about, fenced)
        case Found.TRANSIENT if rules.local or rules.idempotent or not call.applies:
            result = Later(activation)
        case Found.FAILED if rules.local:
            result = _halted(activation, ask, about, finding)
        case Found.HALTED:
            result = _halted(activation, ask, about, finding)
        case Found.UNKNOWN | Found.PENDING | Found.TRANSIENT | Found.FAILED:
            # After an intent nobody knows what was applied: never HALTED, never a rejection.
            result = Settled(activation, _in_doubt(ask, finding.reason))
    return result


def _rejected(
    rules: StepRules, activation: Activation, ask: Ask, call: Call, finding: Finding
) -> Settlement:
    reason = finding.reason or UNEXPLAINED
    about = call.about
    if about is Phase.EXECUTE and not rules.retriable:
        return _final(activation, ask, about, Effect(EffectState.REJECTED, reason=reason))
    # Not applied, and not final: an undo or a retriable step must succeed in the end.
    effect = activation.effect(about)
    cleared = effect
    if effect.intent_command_id == ask.command_id or not call.applies:
        cleared = Effect()
    after = activation.replacing(about, cleared)
    if ask.phase is Phase.RESOLVE and about is Phase.EXECUTE:
        return Settled(after, Reply(ResultStatus.UNKNOWN, reason=reason, final=False))
    if not call.applies and ask.phase is not Phase.RESOLVE:
        return Later(after, at_once=True)
    return Settled(after, Reply(ResultStatus.REJECTED, reason=reason, final=False))


def _halted(activation: Activation, ask: Ask, about: Phase, finding: Finding) -> Settled:
    reason = finding.reason or UNEXPLAINED
    marked = activation
    if ask.phase is not Phase.RESOLVE:
        effect = activation.effect(about)
        halt = Halt(reason, ask.recovery_operation_id)
        marked = activation.replacing(about, replace(effect, halt=halt))
    if ask.phase is Phase.CANCEL:
        status, terminal = ResultStatus.ALREADY_TERMINAL, TerminalStatus.HALTED
        return Settled(marked, Reply(status, terminal, reason=reason, final=False))
    return Settled(marked, Reply(ResultStatus.HALTED, reason=reason, final=False))


def _final(activation: Activation, ask: Ask, about: Phase, effect: Effect) -> Settled:
    after = activation.replacing(about, effect)
    reply = known_reply(after, ask)
    if reply is None:
        # An undo was called for a question about the forward effect: the shell never does that.
        reply = _in_doubt(ask, effect.reason)
    return Settled(after, reply)


def _in_doubt(ask: Ask, reason: Reason | None) -> Reply:
    status = ResultStatus.RESOLUTION_PENDING if ask.phase is Phase.CANCEL else ResultStatus.UNKNOWN
    return Reply(status, reason=reason, final=False)


def _contradicts(effect: Effect, about: Phase, found: Found) -> bool:
    if about is Phase.COMPENSATE:
        return False
    if effect.state is EffectState.SUCCEEDED:
        return found in {Found.REJECTED, Found.CONFIRMED}
    return found is Found.SUCCEEDED


def _raw(ask: Ask, finding: Finding) -> Reply:
    status = ResultStatus.SUCCEEDED if finding.kind is Found.SUCCEEDED else ResultStatus.REJECTED
    if ask.phase is Phase.CANCEL:
        if finding.kind is Found.CONFIRMED:
            return Reply(ResultStatus.CANCEL_CONFIRMED, final=False)
        terminal = TerminalStatus(status.value)
        status = ResultStatus.ALREADY_TERMINAL
        return Reply(status, terminal, finding.reason, finding.output, final=False)
    return Reply(status, reason=finding.reason, output=finding.output, final=False)
