"""Management operations: when they are taken, what they do, what they leave alone."""

import pytest

from sagabus_core.engine import (
    Cancel,
    ManualClose,
    ManualReason,
    Operation,
    Pause,
    Resume,
    Retry,
    preview,
    required_permissions,
)
from sagabus_core.errors import OperationRefused, StaleSnapshot
from sagabus_core.testing import SagaDriver, compensatable, document, parallel, pivot, retriable
from sagabus_core.vocabulary import SagaStatus


def serial() -> SagaDriver:
    steps = {"a": compensatable(), "b": compensatable(cancellable=False)}
    return SagaDriver(document(steps, "a", "b"))


def recovery_ids(saga: SagaDriver) -> list[str | None]:
    return [command.recovery_operation_id for command in saga.last.commands]


def test_another_revision_than_expected_is_refused() -> None:
    saga = serial()
    with pytest.raises(StaleSnapshot):
        saga.apply(Pause(saga.operation(expected_revision=7)))
    saga.apply(Pause(saga.operation(expected_revision=1)))


@pytest.mark.parametrize("event", [Resume, Retry, ManualClose])
def test_an_operation_that_does_not_fit_is_refused(event: type[Resume]) -> None:
    saga = serial()
    with pytest.raises(OperationRefused):
        saga.apply(event(saga.operation()))


@pytest.mark.parametrize("event", [Pause, Resume, Cancel, Retry, ManualClose])
def test_nothing_is_possible_once_it_is_over(event: type[Pause]) -> None:
    saga = SagaDriver(document({"a": compensatable()}, "a"))
    saga.answer("a", "SUCCEEDED")
    with pytest.raises(OperationRefused):
        saga.apply(event(saga.operation()))


def test_what_issues_commands_is_refused_while_paused() -> None:
    saga = serial()
    saga.apply(Pause(saga.operation()))
    with pytest.raises(OperationRefused):
        saga.apply(Cancel(saga.operation()))
    with pytest.raises(OperationRefused):
        saga.apply(Pause(saga.operation()))


class TestCancel:
    def test_a_running_step_gets_the_barrier(self) -> None:
        saga = serial()
        saga.apply(Cancel(saga.operation()))
        assert saga.commands == [("a", "C", 1)]
        assert saga.snapshot.abort is not None
        assert saga.snapshot.abort.reason == "operator_cancel"

    def test_a_resolve_only_step_is_waited_for(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.apply(Cancel(saga.operation()))
        assert saga.commands == []
        assert saga.status is SagaStatus.CANCELLING
        saga.answer("b", "SUCCEEDED")
        assert saga.commands == [("b", "K", 1)]

    def test_it_waits_for_a_resolution_under_way(self) -> None:
        saga = serial()
        saga.answer("a", "UNKNOWN")
        saga.apply(Cancel(saga.operation()))
        assert saga.status is SagaStatus.WAITING_RESOLUTION
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("a", "K", 1)]

    def test_not_twice_not_after_a_pivot_not_while_compensating(self) -> None:
        saga = SagaDriver(document({"p": pivot(), "r": retriable()}, "p", "r"))
        saga.answer("p", "SUCCEEDED")
        with pytest.raises(OperationRefused):
            saga.apply(Cancel(saga.operation()))
        back = serial()
        back.answer("a", "SUCCEEDED")
        back.answer("b", "REJECTED")
        with pytest.raises(OperationRefused):
            back.apply(Cancel(back.operation()))
        waiting = serial()
        waiting.answer("a", "UNKNOWN")
        waiting.apply(Cancel(waiting.operation()))
        with pytest.raises(OperationRefused):
            waiting.apply(Cancel(waiting.operation()))

    def test_what_is_halted_waits_for_a_retry_which_then_cancels(self) -> None:
        saga = serial()
        saga.answer("a", "HALTED")
        saga.apply(Cancel(saga.operation()))
        assert saga.commands == []
        assert saga.status is SagaStatus.MANUAL_INTERVENTION
        saga.apply(Retry(saga.operation()))
        assert saga.commands == [("a", "C", 1)]

    def test_a_halted_resolve_only_step_is_then_asked(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "HALTED")
        saga.apply(Cancel(saga.operation()))
        saga.apply(Retry(saga.operation()))
        assert saga.commands == [("b", "RE", 1)]


class TestRetry:
    def test_the_attempt_goes_on_and_carries_the_operation_until_it_settles(self) -> None:
        saga = serial()
        saga.answer("a", "HALTED")
        operation = saga.operation()
        saga.apply(Retry(operation))
        assert saga.commands == [("a", "E", 2)]
        assert recovery_ids(saga) == [operation.operation_id]
        saga.wake()
        assert saga.commands == [("a", "C", 1)]
        assert recovery_ids(saga) == [operation.operation_id]
        saga.answer("a", "ALREADY_TERMINAL:SUCCEEDED", "CANCEL")
        assert recovery_ids(saga) == [None]

    def test_exhausted_attempts_start_afresh(self) -> None:
        saga = serial()
        saga.answer("a", "UNKNOWN")
        while not saga.snapshot.reasons:
            saga.wake()
        saga.apply(Retry(saga.operation()))
        assert saga.commands == [("a", "RE", 3)]
        saga.wake()
        saga.wake()
        assert saga.commands == [("a", "RE", 4)]

    def test_a_fresh_budget_too(self) -> None:
        resolve = {"timeout_ms": 10_000, "attempts": 100, "budget_ms": 15_000}
        saga = SagaDriver(document({"a": compensatable(resolve=resolve)}, "a"))
        saga.answer("a", "UNKNOWN")
        while not saga.snapshot.reasons:
            saga.wake()
        saga.apply(Retry(saga.operation()))
        assert saga.snapshot.activations["a"].budget_at_ms == saga.now_at_ms + 15_000

    def test_every_open_activation_is_issued_again(self) -> None:
        steps = {"a": compensatable(), "b": compensatable()}
        saga = SagaDriver(document(steps, parallel("all", x="a", y="b")))
        saga.answer("all.x.a", "HALTED")
        saga.apply(Retry(saga.operation()))
        assert saga.commands == [("all.x.a", "E", 2), ("all.y.b", "E", 2)]

    @pytest.mark.parametrize(
        ("answer", "phase", "target", "expected"),
        [
            ("HALTED", "COMPENSATE", None, ("a", "K", 2)),
            ("UNKNOWN", "COMPENSATE", None, ("a", "RK", 2)),
        ],
    )
    def test_trap_09_a_plan_goes_on_at_its_first_unfinished_member(
        self, answer: str, phase: str, target: str | None, expected: tuple[str, str, int]
    ) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "REJECTED")
        saga.answer("a", answer, phase, target=target)
        if answer == "UNKNOWN":
            saga.answer("a", "HALTED", "RESOLVE", target="COMPENSATE")
        saga.apply(Retry(saga.operation()))
        assert saga.commands == [expected]

    def test_a_reason_that_it_cannot_end_refuses_it(self) -> None:
        steps = {"a": compensatable(), "b": compensatable(unknown_allowed=False)}
        saga = SagaDriver(document(steps, parallel("all", x="a", y="b")))
        saga.answer("all.x.a", "HALTED")
        saga.answer("all.y.b", "UNKNOWN")
        with pytest.raises(OperationRefused):
            saga.apply(Retry(saga.operation()))

    def test_the_permission_is_that_of_what_is_issued(self) -> None:
        saga = serial()
        saga.answer("a", "HALTED")
        needed = required_permissions(
            saga.definition, saga.snapshot, Retry(saga.operation()), saga.now_at_ms
        )
        assert needed == {"retry_step"}
        pause = Pause(saga.operation())
        assert required_permissions(saga.definition, saga.snapshot, pause, 0) == {"pause"}


def test_a_dry_run_says_what_would_be_issued_and_changes_nothing() -> None:
    saga = serial()
    before = saga.snapshot
    seen = preview(saga.definition, before, Cancel(saga.operation()), saga.now_at_ms)
    assert [(c.activation, c.channel.value) for c in seen.commands] == [("a", "C")]
    assert seen.after is SagaStatus.CANCELLING
    assert saga.snapshot == before


def test_manual_close_ends_without_claiming_a_result() -> None:
    saga = serial()
    saga.answer("a", "HALTED")
    saga.apply(ManualClose(saga.operation()))
    assert saga.status is SagaStatus.MANUALLY_CLOSED
    saga.answer("a", "SUCCEEDED")
    assert saga.status is SagaStatus.MANUALLY_CLOSED
    assert list(saga.snapshot.reasons.values()) == [ManualReason.STEP_HALTED]


def test_the_journal_names_actor_and_reason() -> None:
    saga = serial()
    saga.apply(Pause(Operation("op-1", "olga", "audit")))
    (fact,) = saga.last.effects
    assert fact.trigger.actor == "olga"  # type: ignore[union-attr]  # a journal fact
    assert fact.trigger.reason == "audit"  # type: ignore[union-attr]  # a journal fact
