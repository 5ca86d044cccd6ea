"""Deadlines, the single armed wake-up, pausing, and the deadline of the instance."""

from typing import Any

import pytest

from sagabus_core.definitions import Backoff
from sagabus_core.engine import ArmWakeup, LifecycleChanged, ManualReason, Pause, Resume
from sagabus_core.engine.effects import Metric, MetricName
from sagabus_core.engine.steering import backoff_ms
from sagabus_core.testing import SagaDriver, compensatable, document, parallel, pivot, retriable
from sagabus_core.vocabulary import SagaStatus


def serial(**more: Any) -> SagaDriver:
    steps = {"a": compensatable(), "b": compensatable(**more)}
    return SagaDriver(document(steps, "a", "b"))


def armed(saga: SagaDriver) -> list[tuple[int, int | None]]:
    return [(e.generation, e.at_ms) for e in saga.last.effects if isinstance(e, ArmWakeup)]


def test_a_start_arms_its_first_deadline() -> None:
    saga = serial()
    assert armed(saga) == [(1, saga.now_at_ms + 10_000)]


def test_an_earlier_armed_time_is_left_alone() -> None:
    saga = serial()
    saga.wait(1)
    saga.answer("a", "SUCCEEDED")
    assert armed(saga) == []
    assert saga.snapshot.generation == 1


def test_a_delivery_with_nothing_due_arms_again() -> None:
    saga = serial()
    saga.wait(1)
    saga.answer("a", "SUCCEEDED")
    saga.wake()
    assert saga.commands == []
    assert armed(saga) == [(2, saga.now_at_ms + 1)]


def test_an_early_delivery_arms_at_least_a_second_later() -> None:
    saga = serial()
    saga.wait(9_900)
    saga.deliver(1)
    assert saga.commands == []
    assert armed(saga) == [(2, saga.now_at_ms + 1_000)]


def test_only_the_armed_generation_counts() -> None:
    saga = serial()
    saga.wait(60_000)
    assert saga.deliver(0).absorbed
    assert saga.deliver(2).absorbed
    assert not saga.deliver(1).absorbed
    assert saga.deliver(1).absorbed


def test_a_sweep_acts_on_an_overdue_instance_and_makes_the_wakeup_stale() -> None:
    saga = serial()
    assert saga.sweep().absorbed
    saga.wait(10_000)
    saga.sweep()
    assert saga.commands == [("a", "C", 1)]
    assert saga.deliver(1).absorbed


def test_a_far_wakeup_is_disarmed_at_the_end_a_near_one_is_left() -> None:
    far = SagaDriver(document({"a": compensatable(execute={"timeout_ms": 999_000})}, "a"))
    far.answer("a", "SUCCEEDED")
    assert armed(far) == [(2, None)]
    near = SagaDriver(document({"a": compensatable()}, "a"))
    near.answer("a", "SUCCEEDED")
    assert armed(near) == []
    assert near.deliver(1).absorbed


def test_an_answer_before_its_late_wakeup_counts_as_in_time() -> None:
    saga = serial()
    saga.wait(20_000)
    saga.answer("a", "SUCCEEDED")
    assert saga.commands == [("b", "E", 1)]


class TestPause:
    def test_paused_issues_nothing_and_suspends_deadlines(self) -> None:
        saga = serial()
        saga.apply(Pause(saga.operation()))
        saga.wait(60_000)
        saga.deliver(1)
        assert saga.commands == []
        assert saga.snapshot.armed_at_ms is None

    def test_resume_lets_overdue_deadlines_act_then_issues(self) -> None:
        saga = serial()
        saga.apply(Pause(saga.operation()))
        saga.wait(60_000)
        saga.apply(Resume(saga.operation()))
        assert saga.commands == [("a", "C", 1)]

    def test_resume_applies_deferred_answers_before_deadlines(self) -> None:
        saga = serial()
        saga.apply(Pause(saga.operation()))
        saga.wait(60_000)
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == []
        saga.apply(Resume(saga.operation()))
        assert saga.commands == [("b", "E", 1)]

    def test_an_abort_learnt_while_paused_compensates_after_resume(self) -> None:
        saga = serial()
        saga.answer("a", "SUCCEEDED")
        saga.apply(Pause(saga.operation()))
        saga.answer("b", "REJECTED")
        assert saga.snapshot.plan is None
        saga.apply(Resume(saga.operation()))
        assert saga.commands == [("a", "K", 1)]

    def test_the_last_success_while_paused_completes_after_resume(self) -> None:
        saga = SagaDriver(document({"a": compensatable()}, "a"))
        saga.apply(Pause(saga.operation()))
        saga.answer("a", "SUCCEEDED")
        assert saga.status.value == "RUNNING"
        saga.apply(Resume(saga.operation()))
        assert saga.status is SagaStatus.COMPLETED


class TestInstanceDeadline:
    def test_it_aborts_and_treats_everything_executing_as_timed_out(self) -> None:
        steps = {"a": compensatable(), "b": compensatable(cancellable=False)}
        saga = SagaDriver(document(steps, parallel("all", x="a", y="b")), deadline_ms=5_000)
        saga.wake()
        assert saga.commands == [("all.x.a", "C", 1), ("all.y.b", "RE", 1)]
        assert saga.snapshot.abort is not None
        assert saga.snapshot.abort.reason == "instance_deadline"

    def test_from_then_on_a_late_success_no_longer_advances(self) -> None:
        steps = {"a": compensatable(), "b": compensatable()}
        saga = SagaDriver(document(steps, "a", "b"), deadline_ms=5_000)
        saga.wake()
        saga.answer("a", "SUCCEEDED")
        assert saga.commands == [("a", "K", 1)]

    @pytest.mark.parametrize("after", ["abort", "pivot"])
    def test_later_it_is_only_told(self, after: str) -> None:
        steps = {"a": compensatable(), "p": pivot(cancellable=True), "r": retriable()}
        saga = SagaDriver(document(steps, "a", "p", "r"), deadline_ms=5_000)
        saga.answer("a", "SUCCEEDED")
        saga.answer("p", "SUCCEEDED" if after == "pivot" else "REJECTED")
        before = saga.status
        saga.wake()
        assert saga.commands == []
        assert saga.status is before
        told = [e for e in saga.last.effects if isinstance(e, LifecycleChanged)]
        assert [e.reason_code for e in told] == ["instance_deadline_passed"]
        assert [e.name for e in saga.last.effects if isinstance(e, Metric)] == [
            MetricName.DEADLINE_PASSED
        ]

    def test_it_is_one_shot(self) -> None:
        steps = {"a": compensatable(), "b": compensatable()}
        saga = SagaDriver(document(steps, "a", "b"), deadline_ms=5_000)
        saga.answer("a", "SUCCEEDED")
        saga.answer("b", "REJECTED")
        saga.wake()
        saga.wake()
        assert not [e for e in saga.last.effects if isinstance(e, LifecycleChanged)]


def test_a_deadline_is_suspended_in_manual_and_acts_once_on_leaving() -> None:
    steps = {"a": compensatable(), "b": compensatable(cancellable=False)}
    saga = SagaDriver(document(steps, parallel("all", x="a", y="b")))
    saga.answer("all.x.a", "HALTED")
    saga.wait(60_000)
    saga.deliver(1)
    assert saga.commands == []
    saga.answer("all.x.a", "SUCCEEDED")
    assert saga.commands == [("all.y.b", "RE", 1)]


def test_when_several_are_due_the_rest_waits_for_the_person_too() -> None:
    steps = {"p": pivot(), "r": retriable(), "s": retriable()}
    saga = SagaDriver(document(steps, "p", parallel("all", x="r", y="s")))
    saga.answer("p", "SUCCEEDED")
    while not saga.snapshot.reasons:
        saga.wake()
    assert list(saga.snapshot.reasons.values()) == [ManualReason.RETRIABLE_ATTEMPTS_EXHAUSTED]


def test_trap_11_backoff_grows_jitters_and_is_bounded() -> None:
    backoff = Backoff(1_000, 2, 5_000)
    ids = [f"{n:08x}-0000-5000-8000-000000000000" for n in (0, 2**31, 2**32 - 1)]
    assert [backoff_ms(backoff, 1, each) for each in ids] == [500, 750, 999]
    assert [backoff_ms(backoff, n, ids[0]) for n in (1, 2, 3, 4, 999)] == [
        500,
        1_000,
        2_000,
        2_500,
        2_500,
    ]
