"""One test per departure from the origin of these rules (engine.md section 11), shortest trace."""

import pytest

from sagabus_core.engine import AttestedOutcome, ForwardState, Pause, RecordOutcome, Resume, Retry
from sagabus_core.errors import AttemptNeverIssued, OperationRefused
from sagabus_core.testing import SagaDriver, World, compensatable, document, parallel, pivot
from sagabus_core.testing import retriable as must_succeed
from sagabus_core.vocabulary import Direction, SagaStatus


def test_a_late_answer_about_the_forward_effect_is_not_taken_for_the_undo() -> None:
    saga = SagaDriver(document({"a": compensatable(), "b": compensatable()}, "a", "b"))
    saga.answer("a", "UNKNOWN")
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "REJECTED")
    saga.answer("a", "UNKNOWN", "COMPENSATE")
    saga.answer("a", "SUCCEEDED", "RESOLVE", target="EXECUTE")
    assert saga.status is SagaStatus.WAITING_RESOLUTION
    assert saga.commands == []


def test_a_negative_resolution_is_a_fence_for_every_later_execute() -> None:
    world = World()
    saga = SagaDriver(document({"a": compensatable()}, "a"))
    execute = saga.sent[0]
    saga.answer("a", "UNKNOWN")
    answer = world.handle(saga.sent[1], "REJECTED", saga.now_at_ms)
    assert answer == "REJECTED"
    saga.answer("a", answer, "RESOLVE", target="EXECUTE")
    assert saga.status is SagaStatus.COMPENSATED
    assert world.handle(execute, "SUCCEEDED", saga.now_at_ms) == "REJECTED"
    assert world.effect("a").applied == 0


def test_an_old_resolve_answer_does_not_close_a_later_question() -> None:
    saga = SagaDriver(document({"a": compensatable(), "b": compensatable()}, "a", "b"))
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "REJECTED")
    saga.answer("a", "UNKNOWN", "COMPENSATE")
    saga.wake()
    saga.wake()
    saga.answer("a", "REJECTED", "RESOLVE", target="COMPENSATE", attempt=1)
    assert saga.status is SagaStatus.WAITING_RESOLUTION
    assert saga.snapshot.members["a"].attempts["K"] == 1  # type: ignore[index]  # by its letter


def test_a_siblings_retry_does_not_compensate_around_an_effect_in_doubt() -> None:
    steps = {"a": compensatable(), "b": compensatable()}
    saga = SagaDriver(document(steps, parallel("all", x="a", y="b")))
    saga.answer("all.x.a", "HALTED")
    saga.answer("all.y.b", "REJECTED")
    assert saga.snapshot.direction is Direction.FORWARD
    saga.apply(Retry(saga.operation()))
    assert saga.commands == [("all.x.a", "C", 1)]
    assert saga.snapshot.plan is None


def test_a_late_success_beside_a_rejection_does_not_advance() -> None:
    steps = {n: compensatable() for n in "abc"}
    saga = SagaDriver(document(steps, parallel("all", x=["a", "c"], y="b")))
    saga.answer("all.y.b", "REJECTED")
    saga.answer("all.x.a", "SUCCEEDED")
    assert saga.commands == [("all.x.a", "K", 1)]


def test_the_first_refusal_after_a_pivot_is_no_dead_end() -> None:
    saga = SagaDriver(document({"p": pivot(), "r": must_succeed()}, "p", "r"))
    saga.answer("p", "SUCCEEDED")
    saga.answer("r", "REJECTED")
    saga.wake()
    assert saga.commands == [("r", "E", 2)]
    saga.answer("r", "SUCCEEDED")
    assert saga.status is SagaStatus.COMPLETED


def test_a_pivots_late_success_revokes_the_abort() -> None:
    steps = {"a": compensatable(), "p": pivot(cancellable=True), "r": must_succeed()}
    saga = SagaDriver(document(steps, "a", "p", "r"), deadline_ms=5_000)
    saga.answer("a", "SUCCEEDED")
    saga.wake()
    assert saga.commands == [("p", "C", 1)]
    assert saga.snapshot.abort is not None
    saga.answer("p", "ALREADY_TERMINAL:SUCCEEDED", "CANCEL")
    assert saga.commands == [("r", "E", 1)]
    assert str(saga.snapshot.abort) == "None"


def test_what_is_retried_after_manual_has_its_deadline() -> None:
    saga = SagaDriver(document({"a": compensatable()}, "a"))
    saga.answer("a", "UNKNOWN")
    saga.answer("a", "HALTED", "RESOLVE", target="EXECUTE")
    saga.wait(100_000)
    saga.deliver(1)
    saga.apply(Retry(saga.operation()))
    activation = saga.snapshot.activations["a"]
    assert activation.deadline_at_ms == saga.now_at_ms + 10_000
    assert activation.budget_at_ms == saga.now_at_ms + 60_000
    assert saga.snapshot.armed_at_ms == activation.deadline_at_ms


def test_a_fenced_execute_agrees_with_cancelled() -> None:
    saga = SagaDriver(document({"a": compensatable(), "b": compensatable()}, "a", "b"))
    saga.answer("a", "SUCCEEDED")
    saga.wake()
    saga.answer("b", "CANCEL_CONFIRMED", "CANCEL")
    saga.answer("b", "REJECTED")
    assert not saga.snapshot.reasons
    assert saga.status is SagaStatus.COMPENSATING


def test_a_person_cannot_say_no_while_an_execute_can_still_start() -> None:
    saga = SagaDriver(document({"a": compensatable()}, "a"))
    saga.answer("a", "HALTED")
    said = AttestedOutcome("a", ForwardState.REJECTED)
    with pytest.raises(OperationRefused):
        saga.apply(RecordOutcome(saga.operation(), said, "nothing at the bank"))


def test_a_paused_saga_takes_its_deferred_answers_at_resume() -> None:
    saga = SagaDriver(document({"a": compensatable(), "b": compensatable()}, "a", "b"))
    saga.apply(Pause(saga.operation()))
    saga.answer("a", "SUCCEEDED")
    with pytest.raises(AttemptNeverIssued):
        saga.answer("b", "SUCCEEDED", attempt=1)
    assert saga.commands == []
    saga.apply(Resume(saga.operation()))
    assert saga.commands == [("b", "E", 1)]
