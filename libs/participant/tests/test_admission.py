"""Admission, case by case: given the journal, when a command comes, then this."""

from typing import TypeAlias

import pytest

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus
from sagabus_participant.admission import Admission, Answer, Call, Ignore, Run, admit
from sagabus_participant.journal import (
    Activation,
    Ask,
    Effect,
    EffectState,
    Halt,
    Reason,
    Reply,
    StepRules,
)

Question: TypeAlias = tuple[Phase, Phase | None]
S: TypeAlias = ResultStatus
T: TypeAlias = TerminalStatus

EXECUTE: Question = (Phase.EXECUTE, None)
CANCEL: Question = (Phase.CANCEL, None)
COMPENSATE: Question = (Phase.COMPENSATE, None)
RESOLVE: Question = (Phase.RESOLVE, Phase.EXECUTE)
RESOLVE_UNDO: Question = (Phase.RESOLVE, Phase.COMPENSATE)

OUTPUT = Payload("application/json", "s", b'{"id":1}')
WHY = Reason("out_of_stock")
LOCAL = StepRules(local=True)
OUTSIDE = StepRules(local=False, has_resolve=True, has_cancel=True)
BARE = StepRules(local=False)
SAFE = StepRules(local=False, idempotent=True, has_resolve=True)
RETRIABLE = StepRules(local=True, retriable=True)

NOTHING = Activation()
SUCCEEDED = Activation(Effect(EffectState.SUCCEEDED, output=OUTPUT))
REJECTED = Activation(Effect(EffectState.REJECTED, reason=WHY))
FENCED = Activation(Effect(EffectState.FENCED, reason=Reason("not_executed")))
CALLED = Activation(Effect(EffectState.INTENT, intent_command_id="other"))
MINE = Activation(Effect(EffectState.INTENT, intent_command_id="c"))
HALTED = Activation(Effect(halt=Halt(Reason("handler_error"), None)))
HALTED_AGAIN = Activation(Effect(halt=Halt(Reason("handler_error"), "op-1")))
UNDONE = Activation(SUCCEEDED.execute, Effect(EffectState.SUCCEEDED))
UNDO_CALLED = Activation(SUCCEEDED.execute, Effect(EffectState.INTENT, intent_command_id="other"))


def decide(
    rules: StepRules,
    activation: Activation,
    question: Question,
    operation: str | None = None,
    past: Reply | None = None,
    now: int = 0,
) -> Admission:
    return admit(rules, activation, Ask("c", *question, 10, operation), past, now)


@pytest.mark.parametrize(
    ("rules", "journal", "question", "status", "terminal", "code"),
    [
        (LOCAL, SUCCEEDED, EXECUTE, S.SUCCEEDED, None, None),
        (LOCAL, REJECTED, EXECUTE, S.REJECTED, None, "out_of_stock"),
        (LOCAL, FENCED, EXECUTE, S.REJECTED, None, "fenced"),
        (LOCAL, HALTED, EXECUTE, S.HALTED, None, "handler_error"),
        (LOCAL, SUCCEEDED, CANCEL, S.ALREADY_TERMINAL, T.SUCCEEDED, None),
        (LOCAL, REJECTED, CANCEL, S.ALREADY_TERMINAL, T.REJECTED, "out_of_stock"),
        (LOCAL, FENCED, CANCEL, S.CANCEL_CONFIRMED, None, None),
        (LOCAL, HALTED, CANCEL, S.ALREADY_TERMINAL, T.HALTED, "handler_error"),
        (LOCAL, SUCCEEDED, RESOLVE, S.SUCCEEDED, None, None),
        (LOCAL, REJECTED, RESOLVE, S.REJECTED, None, "out_of_stock"),
        (LOCAL, FENCED, RESOLVE, S.REJECTED, None, "not_executed"),
        (LOCAL, HALTED, RESOLVE, S.HALTED, None, "handler_error"),
        (LOCAL, UNDONE, COMPENSATE, S.SUCCEEDED, None, None),
        (LOCAL, NOTHING, COMPENSATE, S.HALTED, None, "nothing_to_compensate"),
        (LOCAL, REJECTED, COMPENSATE, S.HALTED, None, "nothing_to_compensate"),
        (OUTSIDE, CALLED, COMPENSATE, S.HALTED, None, "nothing_to_compensate"),
        (LOCAL, UNDONE, RESOLVE_UNDO, S.SUCCEEDED, None, None),
        (LOCAL, SUCCEEDED, RESOLVE_UNDO, S.REJECTED, None, "not_compensated"),
        (RETRIABLE, NOTHING, CANCEL, S.RESOLUTION_PENDING, None, "outcome_in_doubt"),
        (RETRIABLE, NOTHING, RESOLVE, S.UNKNOWN, None, "outcome_in_doubt"),
        (BARE, CALLED, CANCEL, S.RESOLUTION_PENDING, None, "outcome_in_doubt"),
        (BARE, CALLED, RESOLVE, S.UNKNOWN, None, "outcome_in_doubt"),
        (BARE, CALLED, EXECUTE, S.UNKNOWN, None, "outcome_in_doubt"),
    ],
)
def test_the_journal_answers(
    rules: StepRules,
    journal: Activation,
    question: Question,
    status: S,
    terminal: T | None,
    code: str | None,
) -> None:
    decision = decide(rules, journal, question)
    assert isinstance(decision, Answer)
    reply = decision.reply
    assert (reply.status, reply.terminal_status) == (status, terminal)
    assert (reply.reason.code if reply.reason else None) == code
    assert decision.activation == journal


def test_a_success_is_replayed_with_its_output() -> None:
    for question in (EXECUTE, CANCEL, RESOLVE):
        decision = decide(LOCAL, SUCCEEDED, question)
        assert isinstance(decision, Answer)
        assert decision.reply.output == OUTPUT


@pytest.mark.parametrize(
    ("question", "status"), [(CANCEL, S.CANCEL_CONFIRMED), (RESOLVE, S.REJECTED)]
)
@pytest.mark.parametrize("rules", [LOCAL, OUTSIDE, BARE])
def test_a_negative_answer_is_given_with_the_fence(
    rules: StepRules, question: Question, status: S
) -> None:
    decision = decide(rules, NOTHING, question)
    assert isinstance(decision, Answer)
    assert decision.reply.status is status
    assert decision.activation.execute.state is EffectState.FENCED
    blocked = decide(rules, decision.activation, EXECUTE)
    assert isinstance(blocked, Answer)
    assert blocked.reply.reason is not None
    assert blocked.reply.reason.code == "fenced"


@pytest.mark.parametrize(
    ("rules", "journal", "question", "call"),
    [
        (LOCAL, NOTHING, EXECUTE, Call.EXECUTE),
        (LOCAL, SUCCEEDED, COMPENSATE, Call.COMPENSATE),
        (OUTSIDE, NOTHING, EXECUTE, Call.EXECUTE),
        (OUTSIDE, CALLED, EXECUTE, Call.RESOLVE_EXECUTE),
        (SAFE, CALLED, EXECUTE, Call.EXECUTE),
        (OUTSIDE, CALLED, CANCEL, Call.CANCEL),
        (OUTSIDE, CALLED, RESOLVE, Call.RESOLVE_EXECUTE),
        (OUTSIDE, UNDO_CALLED, COMPENSATE, Call.RESOLVE_COMPENSATE),
        (SAFE, UNDO_CALLED, COMPENSATE, Call.COMPENSATE),
        (OUTSIDE, UNDO_CALLED, RESOLVE_UNDO, Call.RESOLVE_COMPENSATE),
    ],
)
def test_a_handler_is_called(
    rules: StepRules, journal: Activation, question: Question, call: Call
) -> None:
    decision = decide(rules, journal, question)
    assert isinstance(decision, Run)
    assert decision.call is call
    if call.applies and not rules.local:
        begun = decision.activation.effect(call.about)
        assert (begun.state, begun.intent_command_id) == (EffectState.INTENT, "c")


@pytest.mark.parametrize("question", [EXECUTE, CANCEL, COMPENSATE, RESOLVE, RESOLVE_UNDO])
@pytest.mark.parametrize("journal", [NOTHING, SUCCEEDED, CALLED, HALTED])
def test_an_expired_command_is_ignored(journal: Activation, question: Question) -> None:
    assert isinstance(decide(OUTSIDE, journal, question, now=10), Ignore)


def test_after_expiry_a_call_in_doubt_is_asked_about_and_never_repeated() -> None:
    asked = decide(SAFE, MINE, EXECUTE, now=10)
    assert isinstance(asked, Run)
    assert asked.call is Call.RESOLVE_EXECUTE
    silent = decide(BARE, MINE, EXECUTE, now=10)
    assert isinstance(silent, Answer)
    assert silent.reply.status is S.UNKNOWN


@pytest.mark.parametrize(
    ("journal", "operation", "opens"),
    [
        (HALTED, None, False),
        (HALTED, "op-1", True),
        (HALTED_AGAIN, None, False),
        (HALTED_AGAIN, "op-1", False),
        (HALTED_AGAIN, "op-2", True),
    ],
)
def test_halted_opens_for_another_recovery_operation_only(
    journal: Activation, operation: str | None, opens: bool
) -> None:
    decision = decide(LOCAL, journal, EXECUTE, operation)
    if opens:
        assert isinstance(decision, Run)
        assert decision.activation.execute.halt is None
    else:
        assert isinstance(decision, Answer)
        assert decision.reply.status is S.HALTED


def test_what_was_in_doubt_is_replayed_until_it_is_definitive() -> None:
    past = Reply(S.UNKNOWN, final=False)
    assert decide(OUTSIDE, MINE, EXECUTE, past=past) == Answer(past, MINE)
    upgraded = decide(OUTSIDE, SUCCEEDED, EXECUTE, past=past)
    assert isinstance(upgraded, Answer)
    assert upgraded.reply.status is S.SUCCEEDED
