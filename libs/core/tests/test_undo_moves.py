"""Every row of a plan member's life, the freeze, its order and its proof."""

from itertools import pairwise
from typing import Any

import pytest

from sagabus_core.engine import (
    AttestedUndo,
    Channel,
    ManualReason,
    MemberState,
    Metric,
    Pause,
    RecordOutcome,
    Resume,
    preview_compensation,
)
from sagabus_core.errors import AttemptNeverIssued
from sagabus_core.testing import SagaDriver, compensatable, document, parallel, timing
from sagabus_core.vocabulary import Direction, SagaStatus


def undoing(**options: Any) -> SagaDriver:
    """Two successes, the third step rejected: `b` is being compensated, `a` waits."""
    steps = {"a": compensatable(), "b": compensatable(**options), "c": compensatable()}
    saga = SagaDriver(document(steps, "a", "b", "c"))
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "SUCCEEDED")
    saga.answer("c", "REJECTED")
    assert saga.commands == [("b", "K", 1)]
    return saga


def member(saga: SagaDriver, path: str = "b") -> MemberState:
    return saga.snapshot.members[path].state


def reasons(saga: SagaDriver) -> list[ManualReason]:
    return list(saga.snapshot.reasons.values())


def test_trap_15_members_run_one_at_a_time_newest_first() -> None:
    saga = undoing()
    assert saga.snapshot.plan is not None
    assert saga.snapshot.plan.members == ("b", "a")
    assert member(saga, "a") is MemberState.PENDING
    saga.answer("b", "SUCCEEDED", "COMPENSATE")
    assert saga.commands == [("a", "K", 1)]
    saga.answer("a", "SUCCEEDED", "COMPENSATE")
    assert saga.status is SagaStatus.COMPENSATED


def test_nothing_to_undo_passes_through_in_one_transaction() -> None:
    saga = SagaDriver(document({"a": compensatable()}, "a"))
    saga.answer("a", "REJECTED")
    assert saga.status is SagaStatus.COMPENSATED
    assert saga.snapshot.direction is Direction.COMPENSATING
    assert saga.snapshot.plan is not None
    assert saga.snapshot.plan.members == ()


def test_a_step_with_nothing_to_undo_is_no_member() -> None:
    steps = {"a": compensatable(compensation="none"), "b": compensatable()}
    saga = SagaDriver(document(steps, "a", "b"))
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "REJECTED")
    assert saga.status is SagaStatus.COMPENSATED


def test_trap_15_the_preview_is_the_plan_that_is_frozen() -> None:
    steps = {"a": compensatable(), "b": compensatable(), "c": compensatable()}
    saga = SagaDriver(document(steps, "a", "b", "c"))
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "SUCCEEDED")
    seen = preview_compensation(saga.definition, saga.snapshot)
    assert seen.version == 0
    saga.answer("c", "REJECTED")
    assert saga.snapshot.plan is not None
    assert (seen.digest, seen.members) == (saga.snapshot.plan.digest, saga.snapshot.plan.members)


def test_the_order_is_that_of_success_not_of_the_document() -> None:
    steps = {"a": compensatable(), "b": compensatable(), "c": compensatable()}
    saga = SagaDriver(document(steps, parallel("all", x="a", y="b"), "c"))
    saga.answer("all.y.b", "SUCCEEDED")
    saga.answer("all.x.a", "SUCCEEDED")
    saga.answer("c", "REJECTED")
    assert saga.snapshot.plan is not None
    assert saga.snapshot.plan.members == ("all.x.a", "all.y.b")


def test_halted_asks_a_person() -> None:
    saga = undoing()
    saga.answer("b", "HALTED", "COMPENSATE")
    assert reasons(saga) == [ManualReason.COMPENSATION_HALTED]


def test_timeout_is_tried_again_under_the_same_effect_then_a_person_is_asked() -> None:
    saga = undoing()
    saga.wake()
    assert saga.commands == []
    saga.wake()
    assert saga.commands == [("b", "K", 2)]
    first, second = [c for c in saga.sent if c.channel == "K"]
    assert first.effect_id == second.effect_id
    assert first.command_id != second.command_id
    saga.wake()
    assert reasons(saga) == [ManualReason.COMPENSATION_ATTEMPTS_EXHAUSTED]


def test_trap_11_a_failing_undo_waits_longer_each_time_and_ends_with_a_person() -> None:
    saga = undoing(compensate=timing(attempts=6))
    asked_at_ms, counted = [saga.now_at_ms], 0
    while not reasons(saga):
        saga.wake()
        counted += sum(isinstance(e, Metric) and e.name == "retry_scheduled"
                       for e in saga.last.effects)  # fmt: skip
        if saga.commands:
            asked_at_ms.append(saga.now_at_ms)
    waits = [later - earlier - 10_000 for earlier, later in pairwise(asked_at_ms)]
    assert len(asked_at_ms) == 6, "a bound"
    for wait, longest in zip(waits, (1_000, 2_000, 4_000, 8_000, 8_000), strict=True):
        assert longest / 2 <= wait <= longest, "back-off with jitter, up to its maximum"
    assert counted == 5, "a metric for each"
    assert reasons(saga) == [ManualReason.COMPENSATION_ATTEMPTS_EXHAUSTED]


class TestResolution:
    def asked(self) -> SagaDriver:
        saga = undoing()
        saga.answer("b", "UNKNOWN", "COMPENSATE")
        assert saga.commands == [("b", "RK", 1)]
        assert saga.status is SagaStatus.WAITING_RESOLUTION
        assert saga.snapshot.direction is Direction.COMPENSATING
        return saga

    def test_succeeded_settles_the_member(self) -> None:
        saga = self.asked()
        saga.answer("b", "SUCCEEDED", "RESOLVE", target="COMPENSATE")
        assert saga.commands == [("a", "K", 1)]

    def test_rejected_means_it_did_not_happen(self) -> None:
        saga = self.asked()
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
        assert member(saga) is MemberState.COMPENSATING
        assert saga.commands == []
        saga.wake()
        assert saga.commands == [("b", "K", 2)]

    def test_attempts_to_undo_are_counted_over_all_stays(self) -> None:
        saga = self.asked()
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
        saga.wake()
        saga.answer("b", "UNKNOWN", "COMPENSATE")
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
        assert reasons(saga) == [ManualReason.COMPENSATION_ATTEMPTS_EXHAUSTED]

    def test_attempts_to_resolve_start_afresh_with_every_stay(self) -> None:
        saga = undoing(compensate=timing(attempts=5))
        saga.answer("b", "UNKNOWN", "COMPENSATE")
        saga.answer("b", "UNKNOWN", "RESOLVE", target="COMPENSATE")
        saga.wake()
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
        saga.wake()
        saga.answer("b", "UNKNOWN", "COMPENSATE")
        assert saga.commands == [("b", "RK", 3)]
        saga.answer("b", "UNKNOWN", "RESOLVE", target="COMPENSATE")
        assert not saga.snapshot.reasons

    def test_late_success_of_the_undo_settles_at_once(self) -> None:
        saga = self.asked()
        saga.answer("b", "SUCCEEDED", "COMPENSATE")
        assert member(saga) is MemberState.COMPENSATED

    def test_unknown_is_asked_again_then_a_person(self) -> None:
        saga = self.asked()
        saga.answer("b", "UNKNOWN", "RESOLVE", target="COMPENSATE")
        saga.wake()
        assert saga.commands == [("b", "RK", 2)]
        saga.wake()
        assert reasons(saga) == [ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED]

    def test_halted_asks_a_person(self) -> None:
        saga = self.asked()
        saga.answer("b", "HALTED", "RESOLVE", target="COMPENSATE")
        assert reasons(saga) == [ManualReason.RESOLUTION_HALTED]

    def test_trap_07_an_old_rejected_is_a_hint_that_comes_too_late(self) -> None:
        saga = self.asked()
        saga.wake()
        saga.wake()
        assert saga.commands == [("b", "RK", 2)]
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE", attempt=1)
        assert member(saga) is MemberState.RESOLVING

    def test_trap_07_an_old_success_is_a_fact(self) -> None:
        saga = self.asked()
        saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
        saga.wake()
        saga.answer("b", "SUCCEEDED", "COMPENSATE", attempt=1)
        assert member(saga) is MemberState.COMPENSATED
        assert saga.commands == [("a", "K", 1)]


def test_an_answer_to_what_was_never_asked_is_refused() -> None:
    saga = undoing()
    for phase, target, attempt in [
        ("COMPENSATE", None, 2),
        ("RESOLVE", "COMPENSATE", 1),
        ("RESOLVE", "EXECUTE", 1),
        ("EXECUTE", None, 0),
    ]:
        with pytest.raises(AttemptNeverIssued):
            saga.answer("b", "SUCCEEDED", phase, target=target, attempt=attempt)
    with pytest.raises(AttemptNeverIssued):
        saga.answer("nowhere", "SUCCEEDED", attempt=1)


@pytest.mark.parametrize("status", ["REJECTED", "UNKNOWN", "HALTED"])
def test_a_hint_from_an_earlier_stay_answers_no_question_that_is_yet_to_be_asked(
    status: str,
) -> None:
    saga = undoing()
    saga.answer("b", "UNKNOWN", "COMPENSATE")
    while not reasons(saga):
        saga.wake()
    saga.apply(RecordOutcome(saga.operation(), AttestedUndo("b", happened=False), "looked it up"))
    while not saga.commands:
        saga.wake()
    saga.apply(Pause(saga.operation()))
    saga.answer("b", "UNKNOWN", "COMPENSATE")
    saga.answer("b", status, "RESOLVE", target="COMPENSATE")
    assert member(saga) is MemberState.RESOLVING
    saga.apply(Resume(saga.operation()))
    asked = saga.snapshot.members["b"].attempts[Channel.RESOLVE_COMPENSATE]
    assert saga.commands == [("b", "RK", asked)]
