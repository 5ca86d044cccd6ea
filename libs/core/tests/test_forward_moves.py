"""Every row of the forward life cycle: given a state, when this arrives, then that happens."""

from typing import Any

import pytest

from sagabus_core.engine import ForwardState, ManualReason
from sagabus_core.testing import SagaDriver, compensatable, document, pivot, retriable
from sagabus_core.vocabulary import SagaStatus

MANUAL = SagaStatus.MANUAL_INTERVENTION


def one(**options: Any) -> SagaDriver:
    """Two compensatable steps; the first one is EXECUTING."""
    return SagaDriver(document({"a": compensatable(**options), "b": compensatable()}, "a", "b"))


def behind_pivot() -> SagaDriver:
    """A retriable step is EXECUTING behind a succeeded pivot."""
    saga = SagaDriver(document({"p": pivot(), "r": retriable(), "s": retriable()}, "p", "r", "s"))
    saga.answer("p", "SUCCEEDED")
    return saga


def cancelling(**options: Any) -> SagaDriver:
    saga = one(**options)
    saga.wake()
    assert saga.commands == [("a", "C", 1)]
    return saga


def resolving(**options: Any) -> SagaDriver:
    saga = one(**options)
    saga.answer("a", "UNKNOWN")
    assert saga.commands == [("a", "RE", 1)]
    return saga


def state(saga: SagaDriver, path: str = "a") -> ForwardState:
    return saga.snapshot.activations[path].state


def reasons(saga: SagaDriver) -> list[ManualReason]:
    return list(saga.snapshot.reasons.values())


class TestExecuting:
    def test_succeeded_advances(self) -> None:
        saga = one()
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("b", "E", 1)]
        saga.answer("b", "SUCCEEDED")
        assert saga.status is SagaStatus.COMPLETED

    def test_rejected_aborts(self) -> None:
        saga = one()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "REJECTED")
        assert saga.snapshot.abort is not None
        assert saga.snapshot.abort.reason == "step_rejected"
        assert saga.commands == [("a", "K", 1)]

    def test_unknown_goes_to_resolution_where_allowed(self) -> None:
        saga = resolving()
        assert state(saga) is ForwardState.RESOLVING
        assert saga.status is SagaStatus.WAITING_RESOLUTION

    def test_unknown_asks_a_person_where_it_is_not_allowed(self) -> None:
        saga = one(unknown_allowed=False)
        saga.answer("a", "UNKNOWN")
        assert reasons(saga) == [ManualReason.UNKNOWN_NOT_ALLOWED]
        assert state(saga) is ForwardState.EXECUTING

    def test_halted_asks_a_person_and_settles_nothing(self) -> None:
        saga = one()
        saga.answer("a", "HALTED")
        assert reasons(saga) == [ManualReason.STEP_HALTED]
        assert saga.snapshot.activations["a"].halted
        assert state(saga) is ForwardState.EXECUTING

    def test_timeout_of_a_cancellable_step_raises_the_barrier(self) -> None:
        saga = cancelling()
        assert saga.status is SagaStatus.CANCELLING

    def test_timeout_of_a_resolve_only_step_asks(self) -> None:
        saga = one(cancellable=False)
        saga.wake()
        assert saga.commands == [("a", "RE", 1)]
        assert saga.status is SagaStatus.WAITING_RESOLUTION


class TestRetriable:
    @pytest.mark.parametrize("answer", ["REJECTED", "UNKNOWN"])
    def test_a_weak_outcome_is_tried_again_after_backoff(self, answer: str) -> None:
        saga = behind_pivot()
        saga.answer("r", answer)
        assert saga.commands == []
        waited = saga.now_at_ms
        saga.wake()
        assert saga.commands == [("r", "E", 2)]
        assert 500 <= saga.now_at_ms - waited <= 1_000

    def test_timeout_is_tried_again_after_backoff(self) -> None:
        saga = behind_pivot()
        saga.wake()
        assert saga.commands == []
        saga.wake()
        assert saga.commands == [("r", "E", 2)]

    def test_exhausted_asks_a_person(self) -> None:
        saga = behind_pivot()
        saga.answer("r", "REJECTED")
        saga.wake()
        saga.answer("r", "REJECTED")
        assert reasons(saga) == [ManualReason.RETRIABLE_ATTEMPTS_EXHAUSTED]

    def test_halted_asks_a_person(self) -> None:
        saga = behind_pivot()
        saga.answer("r", "HALTED")
        assert reasons(saga) == [ManualReason.STEP_HALTED]

    def test_a_rejection_never_conflicts_with_a_later_success(self) -> None:
        saga = behind_pivot()
        saga.answer("r", "REJECTED")
        saga.wake()
        saga.answer("r", "SUCCEEDED", attempt=2)
        saga.answer("r", "SUCCEEDED", attempt=1)
        assert not saga.snapshot.reasons
        assert saga.commands == []
        assert state(saga, "r") is ForwardState.SUCCEEDED

    def test_trap_07_a_late_success_of_an_old_attempt_settles(self) -> None:
        saga = behind_pivot()
        saga.wake()
        saga.wake()
        saga.answer("r", "SUCCEEDED", attempt=1)
        assert saga.commands == [("s", "E", 1)]


class TestCancelling:
    def test_confirmed_settles_and_aborts(self) -> None:
        saga = cancelling()
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL")
        assert state(saga) is ForwardState.CANCELLED
        assert saga.status is SagaStatus.COMPENSATED

    @pytest.mark.parametrize(
        ("answer", "phase"), [("ALREADY_TERMINAL:SUCCEEDED", "CANCEL"), ("SUCCEEDED", "EXECUTE")]
    )
    def test_late_success_is_accepted(self, answer: str, phase: str) -> None:
        saga = cancelling()
        saga.answer("a", answer, phase)
        assert saga.commands == [("b", "E", 1)]

    @pytest.mark.parametrize(
        ("answer", "phase"), [("ALREADY_TERMINAL:SUCCEEDED", "CANCEL"), ("SUCCEEDED", "EXECUTE")]
    )
    def test_late_success_is_undone_where_the_policy_says_so(self, answer: str, phase: str) -> None:
        saga = cancelling(timeout_policy="compensate_late_success")
        saga.answer("a", answer, phase)
        assert saga.commands == [("a", "K", 1)]
        assert saga.snapshot.abort is not None
        assert saga.snapshot.abort.reason == "late_success"

    @pytest.mark.parametrize(
        ("answer", "phase"), [("ALREADY_TERMINAL:REJECTED", "CANCEL"), ("REJECTED", "EXECUTE")]
    )
    def test_late_rejection_settles_and_aborts(self, answer: str, phase: str) -> None:
        saga = cancelling()
        saga.answer("a", answer, phase)
        assert state(saga) is ForwardState.REJECTED
        assert saga.status is SagaStatus.COMPENSATED

    def test_already_halted_asks_a_person(self) -> None:
        saga = cancelling()
        saga.answer("a", "ALREADY_TERMINAL:HALTED", "CANCEL")
        assert reasons(saga) == [ManualReason.STEP_HALTED]

    def test_pending_asks_what_happened(self) -> None:
        saga = cancelling()
        saga.answer("a", "RESOLUTION_PENDING", "CANCEL")
        assert saga.commands == [("a", "RE", 1)]

    @pytest.mark.parametrize("answer", ["UNKNOWN", "HALTED"])
    def test_a_late_weak_execute_is_only_noted(self, answer: str) -> None:
        saga = cancelling()
        saga.answer("a", answer)
        assert state(saga) is ForwardState.CANCELLING
        assert not saga.snapshot.reasons

    def test_timeout_is_tried_again_then_a_person_is_asked(self) -> None:
        saga = cancelling()
        saga.wake()
        assert saga.commands == []
        saga.wake()
        assert saga.commands == [("a", "C", 2)]
        saga.wake()
        assert reasons(saga) == [ManualReason.CANCEL_ATTEMPTS_EXHAUSTED]

    def test_a_cancel_answer_to_an_old_attempt_is_a_fact(self) -> None:
        saga = cancelling()
        saga.wake()
        saga.wake()
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL", attempt=1)
        assert state(saga) is ForwardState.CANCELLED

    def test_pending_of_an_old_attempt_is_a_hint_that_comes_too_late(self) -> None:
        saga = cancelling()
        saga.wake()
        saga.wake()
        saga.answer("a", "RESOLUTION_PENDING", "CANCEL", attempt=1)
        assert state(saga) is ForwardState.CANCELLING


class TestResolving:
    def test_succeeded_by_resolve_advances(self) -> None:
        saga = resolving()
        saga.answer("a", "SUCCEEDED", "RESOLVE", target="EXECUTE")
        assert saga.commands == [("b", "E", 1)]

    def test_succeeded_by_callback_advances(self) -> None:
        saga = resolving()
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("b", "E", 1)]

    def test_rejected_by_callback_aborts(self) -> None:
        saga = resolving()
        saga.answer("a", "REJECTED")
        assert saga.status is SagaStatus.COMPENSATED

    def test_the_policy_judges_only_where_a_timeout_led_here(self) -> None:
        policy = {"cancellable": False, "timeout_policy": "compensate_late_success"}
        asked = resolving(**policy)
        asked.answer("a", "SUCCEEDED", "RESOLVE", target="EXECUTE")
        assert asked.commands == [("b", "E", 1)]
        late = one(**policy)
        late.wake()
        late.answer("a", "SUCCEEDED", "RESOLVE", target="EXECUTE")
        assert late.commands == [("a", "K", 1)]

    def test_the_policy_judges_what_came_through_cancelling(self) -> None:
        saga = cancelling(timeout_policy="compensate_late_success")
        saga.answer("a", "RESOLUTION_PENDING", "CANCEL")
        saga.answer("a", "SUCCEEDED", "RESOLVE", target="EXECUTE")
        assert saga.commands == [("a", "K", 1)]

    def test_late_cancel_confirmed_settles(self) -> None:
        saga = cancelling()
        saga.wake()
        saga.wake()
        saga.answer("a", "RESOLUTION_PENDING", "CANCEL", attempt=2)
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL", attempt=1)
        assert state(saga) is ForwardState.CANCELLED

    @pytest.mark.parametrize("terminal", ["SUCCEEDED", "REJECTED"])
    def test_late_already_terminal_settles(self, terminal: str) -> None:
        saga = cancelling()
        saga.wake()
        saga.wake()
        saga.answer("a", "RESOLUTION_PENDING", "CANCEL", attempt=2)
        saga.answer("a", f"ALREADY_TERMINAL:{terminal}", "CANCEL", attempt=1)
        assert state(saga) is ForwardState(terminal)

    def test_unknown_is_asked_again_then_a_person(self) -> None:
        saga = resolving()
        saga.answer("a", "UNKNOWN", "RESOLVE", target="EXECUTE")
        saga.wake()
        assert saga.commands == [("a", "RE", 2)]
        saga.answer("a", "UNKNOWN", "RESOLVE", target="EXECUTE")
        assert reasons(saga) == [ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED]

    def test_timeout_is_asked_again_then_a_person(self) -> None:
        saga = resolving()
        saga.wake()
        saga.wake()
        assert saga.commands == [("a", "RE", 2)]
        saga.wake()
        assert reasons(saga) == [ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED]

    def test_halted_asks_a_person(self) -> None:
        saga = resolving()
        saga.answer("a", "HALTED", "RESOLVE", target="EXECUTE")
        assert reasons(saga) == [ManualReason.RESOLUTION_HALTED]

    def test_the_budget_ends_it(self) -> None:
        resolve = {"timeout_ms": 10_000, "attempts": 1_000, "budget_ms": 15_000}
        saga = resolving(resolve=resolve)
        began = saga.now_at_ms
        while not saga.snapshot.reasons:
            saga.wake()
        assert reasons(saga) == [ManualReason.RESOLUTION_BUDGET_EXHAUSTED]
        assert saga.now_at_ms - began == 15_000
        assert saga.status is MANUAL

    @pytest.mark.parametrize("answer", ["UNKNOWN", "HALTED"])
    def test_trap_07_an_old_hint_is_only_noted(self, answer: str) -> None:
        saga = resolving()
        saga.wake()
        saga.wake()
        saga.answer("a", answer, "RESOLVE", target="EXECUTE", attempt=1)
        assert saga.commands == []
        assert not saga.snapshot.reasons
        assert saga.snapshot.activations["a"].deadline_at_ms is not None
