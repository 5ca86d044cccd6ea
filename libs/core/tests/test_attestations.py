"""Conflicts, the exits of MANUAL, and what an operator may and may not attest."""

from typing import Any

import pytest

from sagabus_core.engine import (
    EXITS,
    AttestedOutcome,
    AttestedUndo,
    Decision,
    Exit,
    ForwardState,
    ManualReason,
    MemberState,
    Metric,
    MetricName,
    RecordOutcome,
    Retry,
)
from sagabus_core.errors import InvalidValue, OperationRefused
from sagabus_core.testing import SagaDriver, compensatable, document, parallel, pivot, retriable
from sagabus_core.vocabulary import SagaStatus

YES, NO, OFF = ForwardState.SUCCEEDED, ForwardState.REJECTED, ForwardState.CANCELLED
FAR = 10_000_000


def serial(**options: Any) -> SagaDriver:
    return SagaDriver(document({"a": compensatable(**options), "b": compensatable()}, "a", "b"))


def reasons(saga: SagaDriver) -> list[ManualReason]:
    return list(saga.snapshot.reasons.values())


def attest(saga: SagaDriver, path: str, outcome: ForwardState) -> Decision:
    said = AttestedOutcome(path, outcome)
    return saga.apply(RecordOutcome(saga.operation(), said, "the bank's statement"))


def test_every_reason_has_an_exit_besides_manual_close() -> None:
    assert set(EXITS) == set(ManualReason)
    assert all(exits for exits in EXITS.values())
    assert all(Exit.RECORD_OUTCOME in exits for exits in EXITS.values())


class TestConflicts:
    def test_two_facts_of_one_attempt(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "REJECTED")
        assert reasons(saga) == [ManualReason.ATTEMPT_OUTCOME_CONFLICT]
        assert saga.snapshot.activations["a"].answers == {"E1": "S+R"}
        assert saga.snapshot.activations["a"].state is YES

    def test_two_facts_of_different_phases(self) -> None:
        saga = serial()
        saga.wake()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL")
        assert reasons(saga) == [ManualReason.CROSS_PHASE_FACT_CONFLICT]

    def test_a_fenced_execute_agrees_with_the_cancel(self) -> None:
        saga = serial()
        saga.wake()
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL")
        saga.answer("a", "REJECTED")
        assert saga.status is SagaStatus.COMPENSATED
        assert not saga.snapshot.reasons
        assert saga.snapshot.activations["a"].state is OFF

    def test_a_terminal_saga_stays_and_raises_the_metric(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "SUCCEEDED")
        saga.answer("b", "REJECTED")
        assert saga.status is SagaStatus.COMPLETED
        metrics = [e.name for e in saga.last.effects if isinstance(e, Metric)]
        assert metrics == [MetricName.CONFLICT]
        assert saga.snapshot.activations["b"].answers == {"E1": "S+R"}

    def test_weak_answers_after_a_fact_are_only_kept(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "UNKNOWN")
        saga.answer("a", "HALTED")
        assert not saga.snapshot.reasons
        assert saga.snapshot.activations["a"].answers == {"E1": "S+U+H"}

    def test_retry_and_facts_do_not_end_it(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "REJECTED")
        with pytest.raises(OperationRefused):
            saga.apply(Retry(saga.operation()))
        saga.answer("b", "SUCCEEDED")
        assert reasons(saga) == [ManualReason.ATTEMPT_OUTCOME_CONFLICT]

    def test_it_outweighs_another_reason_of_the_same_activation(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.wait(FAR)
        saga.answer("b", "HALTED")
        saga.answer("b", "SUCCEEDED")
        assert saga.status is SagaStatus.COMPLETED

    def test_the_first_fact_may_stand(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "REJECTED")
        attest(saga, "a", YES)
        assert saga.commands == []
        saga.answer("b", "SUCCEEDED")
        assert saga.status is SagaStatus.COMPLETED

    def test_or_the_second_which_turns_the_saga_back(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "REJECTED")
        saga.wait(FAR)
        attest(saga, "a", NO)
        assert saga.commands == [("b", "C", 1)]
        saga.answer("b", "CANCEL_CONFIRMED", "CANCEL")
        assert saga.status is SagaStatus.COMPENSATED

    def test_after_the_freeze_an_override_freezes_again(self) -> None:
        steps = {n: compensatable() for n in "abc"}
        saga = SagaDriver(document(steps, "a", parallel("all", x="b", y="c")))
        saga.answer("a", "SUCCEEDED")
        saga.answer("all.x.b", "REJECTED")
        saga.answer("all.y.c", "CANCEL_CONFIRMED", "CANCEL")
        assert saga.commands == [("a", "K", 1)]
        saga.answer("all.y.c", "SUCCEEDED")
        assert reasons(saga) == [ManualReason.CROSS_PHASE_FACT_CONFLICT]
        attest(saga, "all.y.c", YES)
        plan = saga.snapshot.plan
        assert plan is not None
        assert (plan.version, plan.members) == (2, ("all.y.c", "a"))
        assert saga.commands == []  # `a` is under way: one member at a time
        saga.answer("a", "SUCCEEDED", "COMPENSATE")
        assert saga.commands == [("all.y.c", "K", 1)]
        saga.answer("all.y.c", "SUCCEEDED", "COMPENSATE")
        assert saga.status is SagaStatus.COMPENSATED


class TestOutcomes:
    def halted(self) -> SagaDriver:
        saga = serial()
        saga.answer("a", "HALTED")
        return saga

    def test_a_success_may_be_attested_at_once(self) -> None:
        saga = self.halted()
        attest(saga, "a", YES)
        assert saga.commands == [("b", "E", 1)]
        assert saga.snapshot.activations["a"].attested

    @pytest.mark.parametrize("outcome", [NO, OFF])
    def test_a_no_needs_the_fence_or_every_expiry_past_by_the_skew(
        self, outcome: ForwardState
    ) -> None:
        saga = self.halted()
        saga.wait(10_000 + 60_000)
        with pytest.raises(OperationRefused):
            attest(saga, "a", outcome)
        saga.wait(1)
        attest(saga, "a", outcome)
        assert saga.status is SagaStatus.COMPENSATED

    def test_a_confirmed_fence_is_enough(self) -> None:
        saga = serial()
        saga.wake()
        saga.answer("a", "SUCCEEDED")
        saga.answer("a", "CANCEL_CONFIRMED", "CANCEL")
        attest(saga, "a", OFF)
        assert saga.snapshot.activations["a"].state is OFF

    def test_every_expiry_counts_the_last_one_too(self) -> None:
        saga = self.halted()
        saga.wait(80_000)
        saga.apply(Retry(saga.operation()))
        saga.answer("a", "HALTED")
        with pytest.raises(OperationRefused):
            attest(saga, "a", NO)

    def test_every_expiry_counts_also_when_the_clock_went_back(self) -> None:
        saga = serial()
        saga.answer("a", "HALTED")
        saga.wait(-5_000)
        saga.apply(Retry(saga.operation()))
        saga.answer("a", "HALTED")
        saga.wait(10_000 + 60_001)
        with pytest.raises(OperationRefused):
            attest(saga, "a", NO)
        saga.wait(5_000)
        assert attest(saga, "a", NO).snapshot.status is SagaStatus.COMPENSATED

    def test_a_retriable_can_only_have_succeeded(self) -> None:
        saga = SagaDriver(document({"p": pivot(), "r": retriable()}, "p", "r"))
        saga.answer("p", "SUCCEEDED")
        saga.answer("r", "HALTED")
        saga.wait(FAR)
        with pytest.raises(OperationRefused):
            attest(saga, "r", NO)
        attest(saga, "r", YES)
        assert saga.status is SagaStatus.COMPLETED

    def test_nothing_in_doubt_cannot_be_attested(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "HALTED")
        saga.wait(FAR)
        for path in ("a", "nowhere"):
            with pytest.raises(OperationRefused):
                attest(saga, path, NO)
        with pytest.raises(InvalidValue):
            attest(saga, "b", ForwardState.SKIPPED)
        unfounded = RecordOutcome(saga.operation(), AttestedOutcome("b", YES), " ")
        with pytest.raises(InvalidValue):
            saga.apply(unfounded)

    def test_what_stands_before_a_succeeded_pivot_stays(self) -> None:
        steps = {"a": compensatable(), "p": pivot(), "r": retriable()}
        saga = SagaDriver(document(steps, "a", "p", "r"))
        saga.answer("a", "SUCCEEDED")
        saga.answer("p", "SUCCEEDED")
        saga.answer("a", "REJECTED")
        saga.wait(FAR)
        with pytest.raises(OperationRefused):
            attest(saga, "a", NO)
        attest(saga, "a", YES)
        saga.answer("r", "SUCCEEDED")
        assert saga.status is SagaStatus.COMPLETED

    def test_a_pivot_cannot_succeed_any_more_once_compensation_has_begun(self) -> None:
        steps = {"a": compensatable(), "p": pivot(), "r": retriable()}
        saga = SagaDriver(document(steps, "a", "p", "r"))
        saga.answer("a", "SUCCEEDED")
        saga.answer("p", "REJECTED")
        saga.answer("p", "SUCCEEDED")
        with pytest.raises(OperationRefused):
            attest(saga, "p", YES)
        saga.wait(FAR)
        attest(saga, "p", NO)
        assert saga.status is SagaStatus.COMPENSATING

    def test_a_pivot_on_which_nothing_rests_may_turn_out_rejected(self) -> None:
        saga = SagaDriver(document({"a": compensatable(), "p": pivot()}, "a", "p"))
        saga.answer("a", "SUCCEEDED")
        saga.answer("p", "HALTED")
        saga.wait(FAR)
        attest(saga, "p", NO)
        assert saga.commands == [("a", "K", 1)]

    def test_an_unknown_that_was_not_allowed_ends_so_or_by_a_late_fact(self) -> None:
        saga = serial(unknown_allowed=False)
        saga.answer("a", "UNKNOWN")
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("b", "E", 1)]


class TestUndo:
    def halted(self) -> SagaDriver:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "REJECTED")
        saga.answer("a", "HALTED", "COMPENSATE")
        return saga

    def test_it_happened(self) -> None:
        saga = self.halted()
        saga.apply(RecordOutcome(saga.operation(), AttestedUndo("a", happened=True), "seen"))
        assert saga.status is SagaStatus.COMPENSATED

    def test_it_did_not_happen_so_it_is_tried_again(self) -> None:
        saga = self.halted()
        saga.apply(RecordOutcome(saga.operation(), AttestedUndo("a", happened=False), "seen"))
        saga.wake()
        assert saga.commands == [("a", "K", 2)]
        assert saga.snapshot.members["a"].state is MemberState.COMPENSATING

    def test_only_a_member_under_way_is_in_doubt(self) -> None:
        saga = self.halted()
        with pytest.raises(OperationRefused):
            saga.apply(RecordOutcome(saga.operation(), AttestedUndo("b", happened=True), "seen"))


def test_a_plan_that_the_facts_do_not_make_asks_a_person_who_attests_what_is_true() -> None:
    saga = serial()
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "REJECTED")
    plan = saga.snapshot.plan
    assert plan is not None
    saga.snapshot = saga.snapshot._replace(plan=type(plan)(1, "0" * 64, plan.members))
    with pytest.raises(AssertionError, match="I3"):
        saga.answer("a", "SUCCEEDED", "COMPENSATE")
    broken = saga.decided
    assert list(broken.snapshot.reasons.values()) == [ManualReason.COMPENSATION_PLAN_DRIFT]
    saga.snapshot = broken.snapshot
    attest(saga, "a", YES)
    assert saga.status is SagaStatus.COMPENSATED
