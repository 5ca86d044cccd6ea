"""Settlement, case by case: given the journal, when a handler has answered, then this."""

from typing import TypeAlias

import pytest

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_participant.admission import Call
from sagabus_participant.journal import (
    Activation,
    Ask,
    Effect,
    EffectState,
    Finding,
    Found,
    Reason,
    StepRules,
)
from sagabus_participant.settlement import Later, Settled, Settlement, settle

OUTPUT = Payload("application/json", "s", b"{}")
WHY = Reason("card_declined")
LOCAL, OUTSIDE = StepRules(local=True), StepRules(local=False, has_resolve=True)
SAFE = StepRules(local=False, idempotent=True)
RETRIABLE = StepRules(local=False, retriable=True)
MINE = Activation(Effect(EffectState.INTENT, intent_command_id="c"))
DONE = Activation(Effect(EffectState.SUCCEEDED, output=OUTPUT))
FENCED = Activation(Effect(EffectState.FENCED, reason=WHY))
UNDOING = Activation(DONE.execute, Effect(EffectState.INTENT, intent_command_id="c"))
S: TypeAlias = ResultStatus
F: TypeAlias = Found
QUESTIONS: dict[Call, tuple[Phase, Phase | None]] = {
    Call.EXECUTE: (Phase.EXECUTE, None),
    Call.COMPENSATE: (Phase.COMPENSATE, None),
    Call.CANCEL: (Phase.CANCEL, None),
    Call.RESOLVE_EXECUTE: (Phase.RESOLVE, Phase.EXECUTE),
    Call.RESOLVE_COMPENSATE: (Phase.RESOLVE, Phase.COMPENSATE),
}


def after(
    rules: StepRules,
    journal: Activation,
    call: Call,
    kind: Found,
    asked: Call | None = None,
    operation: str | None = None,
) -> Settlement:
    ask = Ask("c", *QUESTIONS[asked or call], 10, operation)
    output = OUTPUT if kind is F.SUCCEEDED else None
    return settle(rules, journal, ask, call, Finding(kind, WHY, output))


@pytest.mark.parametrize(
    ("rules", "journal", "call", "kind", "status", "state"),
    [
        (LOCAL, Activation(), Call.EXECUTE, F.SUCCEEDED, S.SUCCEEDED, EffectState.SUCCEEDED),
        (LOCAL, Activation(), Call.EXECUTE, F.REJECTED, S.REJECTED, EffectState.REJECTED),
        (LOCAL, Activation(), Call.EXECUTE, F.FAILED, S.HALTED, EffectState.NONE),
        (OUTSIDE, MINE, Call.EXECUTE, F.SUCCEEDED, S.SUCCEEDED, EffectState.SUCCEEDED),
        (OUTSIDE, MINE, Call.EXECUTE, F.UNKNOWN, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, MINE, Call.EXECUTE, F.FAILED, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, MINE, Call.EXECUTE, F.TRANSIENT, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, MINE, Call.EXECUTE, F.HALTED, S.HALTED, EffectState.INTENT),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.SUCCEEDED, S.SUCCEEDED, EffectState.SUCCEEDED),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.REJECTED, S.REJECTED, EffectState.REJECTED),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.UNKNOWN, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.FAILED, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.HALTED, S.HALTED, EffectState.INTENT),
        (OUTSIDE, MINE, Call.CANCEL, F.CONFIRMED, S.CANCEL_CONFIRMED, EffectState.FENCED),
        (OUTSIDE, MINE, Call.CANCEL, F.SUCCEEDED, S.ALREADY_TERMINAL, EffectState.SUCCEEDED),
        (OUTSIDE, MINE, Call.CANCEL, F.REJECTED, S.ALREADY_TERMINAL, EffectState.REJECTED),
        (OUTSIDE, MINE, Call.CANCEL, F.PENDING, S.RESOLUTION_PENDING, EffectState.INTENT),
        (OUTSIDE, MINE, Call.CANCEL, F.FAILED, S.RESOLUTION_PENDING, EffectState.INTENT),
        (RETRIABLE, MINE, Call.EXECUTE, F.REJECTED, S.REJECTED, EffectState.NONE),
        (RETRIABLE, MINE, Call.RESOLVE_EXECUTE, F.REJECTED, S.UNKNOWN, EffectState.NONE),
        (LOCAL, DONE, Call.COMPENSATE, F.SUCCEEDED, S.SUCCEEDED, EffectState.SUCCEEDED),
        (LOCAL, DONE, Call.COMPENSATE, F.FAILED, S.HALTED, EffectState.NONE),
        (OUTSIDE, UNDOING, Call.COMPENSATE, F.FAILED, S.UNKNOWN, EffectState.INTENT),
        (OUTSIDE, UNDOING, Call.RESOLVE_COMPENSATE, F.REJECTED, S.REJECTED, EffectState.NONE),
    ],
)
def test_answer_and_journal(
    rules: StepRules, journal: Activation, call: Call, kind: F, status: S, state: EffectState
) -> None:
    result = after(rules, journal, call, kind)
    assert isinstance(result, Settled)
    assert result.reply.status is status
    assert result.activation.effect(call.about).state is state
    assert not result.conflict


@pytest.mark.parametrize(
    ("rules", "journal", "call", "kind", "asked"),
    [
        (LOCAL, Activation(), Call.EXECUTE, F.TRANSIENT, None),
        (SAFE, MINE, Call.EXECUTE, F.TRANSIENT, None),
        (OUTSIDE, MINE, Call.RESOLVE_EXECUTE, F.TRANSIENT, None),
        (RETRIABLE, MINE, Call.RESOLVE_EXECUTE, F.REJECTED, Call.EXECUTE),
        (OUTSIDE, UNDOING, Call.RESOLVE_COMPENSATE, F.REJECTED, Call.COMPENSATE),
    ],
)
def test_not_answered_yet(
    rules: StepRules, journal: Activation, call: Call, kind: F, asked: Call | None
) -> None:
    assert isinstance(after(rules, journal, call, kind, asked), Later)


def test_a_halt_keeps_the_recovery_operation_under_which_it_happened() -> None:
    result = after(LOCAL, Activation(), Call.EXECUTE, F.FAILED, operation="op-7")
    assert result.activation.execute.halt is not None
    assert result.activation.execute.halt.recovery_operation_id == "op-7"


@pytest.mark.parametrize("kind", [F.UNKNOWN, F.HALTED, F.FAILED, F.TRANSIENT, F.SUCCEEDED])
def test_what_a_callback_settled_meanwhile_is_answered_instead_of_doubt(kind: F) -> None:
    result = after(OUTSIDE, DONE, Call.EXECUTE, kind)
    assert isinstance(result, Settled)
    assert result.reply.status is S.SUCCEEDED
    assert (result.activation, result.conflict) == (DONE, False)


def test_a_success_beside_the_fence_is_shown_and_not_hidden() -> None:
    result = after(OUTSIDE, FENCED, Call.EXECUTE, F.SUCCEEDED)
    assert isinstance(result, Settled)
    assert (result.reply.status, result.conflict) == (S.SUCCEEDED, True)
    assert result.activation == FENCED


def test_already_terminal_names_the_outcome() -> None:
    result = after(OUTSIDE, MINE, Call.CANCEL, F.HALTED)
    assert isinstance(result, Settled)
    assert result.reply.terminal_status is TerminalStatus.HALTED
