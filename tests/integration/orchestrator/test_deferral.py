"""Results of a paused saga wait durably, and count in their order at its resume."""

import pytest

from sagabus_core.engine import ManualClose
from sagabus_core.errors import StaleSnapshot
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus
from sagabus_messages import Command, WakeupRequest

from .support import Rig, commands, lifecycle, open_rig, operation, order, pause, resume


async def paused(rig: Rig, steps: int = 0) -> Command:
    """Return the outstanding command of a paused saga, some steps on its way."""
    sent = await rig.process(rig.start_record())
    for _ in range(steps):
        sent = await rig.process(rig.result_record(commands(sent)[0]))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.read_outbox()
    return commands(sent)[0]


async def resumed(rig: Rig) -> list[Command]:
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    return commands(await rig.read_outbox())


async def test_a_result_waits_and_another_replica_resumes(rig: Rig, prepared: str) -> None:
    command = await paused(rig)
    assert await rig.process(rig.result_record(command)) == []
    assert await rig.count("deferred_message") == 1

    other = await open_rig(prepared)
    await other.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    await other.database.close()
    assert [c.step for c in commands(await rig.read_outbox())] == ["charge"]
    assert await rig.count("deferred_message") == 0


async def test_a_repeat_of_a_deferred_result_is_not_deferred_again(rig: Rig) -> None:
    record = rig.result_record(await paused(rig))
    await rig.process(record, record)
    await rig.process(record)
    assert await rig.count("deferred_message") == 1
    assert len(await resumed(rig)) == 1
    assert await rig.process(record) == []


async def test_deferred_results_count_in_their_order(rig: Rig) -> None:
    command = await paused(rig, steps=1)
    await rig.process(
        rig.result_record(command, ResultStatus.UNKNOWN),
        rig.result_record(command, ResultStatus.REJECTED, ordinal=2),
    )
    (undo,) = await resumed(rig)
    assert (undo.step, undo.phase) == ("reserve", Phase.COMPENSATE)


async def test_a_paused_saga_does_not_hold_the_others_of_its_batch(rig: Rig) -> None:
    command = await paused(rig)
    (other,) = commands(await rig.process(rig.start_record("ORD-2")))
    sent = await rig.process(rig.result_record(command), rig.result_record(other))
    assert [(c.business_key, c.step) for c in commands(sent)] == [("ORD-2", "charge")]


async def test_the_last_result_in_a_pause_ends_the_saga_at_its_resume(rig: Rig) -> None:
    command = await paused(rig, steps=3)
    await rig.process(rig.result_record(command))
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    assert lifecycle(await rig.read_outbox())[-1].status is SagaStatus.COMPLETED


async def test_overdue_deadlines_act_at_the_resume_after_the_deferred_results(rig: Rig) -> None:
    quick = order(2)
    quick["steps"]["reserve"]["execute"]["timeout_ms"] = 1  # type: ignore[index, call-overload]  # JSON
    await rig.publish(quick)
    late = await paused(rig)
    await rig.until(late.expires_at_ms)
    (cancel,) = await resumed(rig)
    assert (cancel.step, cancel.phase) == ("reserve", Phase.CANCEL)


async def test_an_answer_in_the_pause_is_stronger_than_its_timeout(rig: Rig) -> None:
    quick = order(2)
    quick["steps"]["reserve"]["execute"]["timeout_ms"] = 1  # type: ignore[index, call-overload]  # JSON
    await rig.publish(quick)
    late = await paused(rig)
    await rig.until(late.expires_at_ms)
    await rig.process(rig.result_record(late))
    assert [(c.step, c.phase) for c in await resumed(rig)] == [("charge", Phase.EXECUTE)]


async def test_a_wake_up_is_never_deferred(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.process(rig.wakeup_record(armed))
    assert await rig.count("deferred_message") == 0
    assert await rig.value("select armed_at_ms from saga") is None
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    assert await rig.value("select armed_at_ms from saga") is not None


async def test_the_expected_revision_of_a_resume_is_the_one_that_was_seen(rig: Rig) -> None:
    command = await paused(rig)
    await rig.process(rig.result_record(command))
    saga, seen = rig.saga("ORD-1"), await rig.value("select revision from saga")
    assert isinstance(seen, int)
    with pytest.raises(StaleSnapshot):
        await rig.operations.perform("acme", saga, resume("r", seen - 1))
    assert await rig.count("deferred_message") == 1
    await rig.operations.dry_run("acme", saga, resume("r", seen))
    done = await rig.operations.perform("acme", saga, resume("r", seen))
    assert done.commands == ("EXECUTE charge attempt 1",)


async def test_what_waits_for_a_saga_that_is_closed_stays_as_evidence(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    saga = rig.saga("ORD-1")
    await rig.operations.perform("acme", saga, pause("p"))
    late = rig.result_record(commands(sent)[0], ResultStatus.SUCCEEDED, ordinal=2)
    await rig.process(late)
    assert await rig.count("deferred_message") == 1
    done = await rig.operations.perform("acme", saga, ManualClose(operation("c")))
    assert done.status is SagaStatus.MANUALLY_CLOSED
    assert await rig.count("deferred_message") == 0
    assert await rig.value("select status from saga") == "MANUALLY_CLOSED"
    facts = await rig.facts("ORD-1")
    assert facts[-1]["kind"] == "answer"


async def test_a_late_result_of_a_saga_closed_in_a_pause_is_not_deferred(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.operations.perform("acme", rig.saga("ORD-1"), ManualClose(operation("c")))
    await rig.process(rig.result_record(commands(sent)[0], ordinal=2))
    assert await rig.count("deferred_message") == 0
    assert await rig.value("select status from saga") == "MANUALLY_CLOSED"
