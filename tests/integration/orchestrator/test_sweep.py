"""The second line behind the timer: overdue sagas are decided without a wake-up."""

from sagabus_core.engine import Retry
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import WakeupRequest

from .support import Rig, commands, operation, order, pause


async def overdue(rig: Rig, *keys: str) -> list[WakeupRequest]:
    """Start sagas whose first step times out at once, and wait until it has."""
    quick = order(2)
    quick["steps"]["reserve"]["execute"]["timeout_ms"] = 1  # type: ignore[index, call-overload]  # JSON
    await rig.publish(quick)
    sent = await rig.process(*(rig.start_record(key) for key in keys))
    armed = [message for message in sent if isinstance(message, WakeupRequest)]
    await rig.until(max(request.at_ms or 0 for request in armed))
    return armed


async def test_trap_10_an_overdue_saga_is_decided_and_armed_again(rig: Rig) -> None:
    (armed,) = await overdue(rig, "ORD-1")
    assert await rig.sweeper.sweep() == 1
    sent = await rig.read_outbox()
    (command,) = commands(sent)
    assert (command.step, command.phase) == ("reserve", Phase.CANCEL)
    (again,) = [message for message in sent if isinstance(message, WakeupRequest)]
    assert again.generation > armed.generation
    assert await rig.sweeper.sweep() == 0


async def test_a_wake_up_after_the_sweep_changes_nothing(rig: Rig) -> None:
    (armed,) = await overdue(rig, "ORD-1")
    await rig.sweeper.sweep()
    await rig.read_outbox()
    assert await rig.process(rig.wakeup_record(armed)) == []


async def test_a_sweep_after_the_wake_up_changes_nothing(rig: Rig) -> None:
    (armed,) = await overdue(rig, "ORD-1")
    assert len(commands(await rig.process(rig.wakeup_record(armed)))) == 1
    assert await rig.sweeper.sweep() == 0


async def test_a_paused_saga_is_swept_once_and_acts_at_its_resume(rig: Rig) -> None:
    await overdue(rig, "ORD-1")
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.read_outbox()
    await rig.sweeper.sweep()
    assert await rig.sweeper.sweep() == 0
    assert commands(await rig.read_outbox()) == []


async def test_a_saga_that_cannot_be_decided_does_not_stop_the_others(rig: Rig) -> None:
    await overdue(rig, *(f"ORD-{n}" for n in range(5)))
    before = await rig.break_snapshot("ORD-2")
    assert await rig.sweeper.sweep() == 5
    assert len(commands(await rig.read_outbox())) == 4
    assert await rig.sweeper.sweep() == 0  # passed over for a while, its turn comes again
    await rig.restore_snapshot("ORD-2", before)
    rig.sweeper.PASS_OVER_S = 0.0  # type: ignore[misc]  # the minute is over
    assert await rig.sweeper.sweep() == 1
    assert len(commands(await rig.read_outbox())) == 1


async def test_wake_ups_of_unknown_and_ended_sagas_change_nothing(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    await rig.process(rig.wakeup_record(armed))
    assert await rig.value("select status from saga") == "COMPLETED"
    await rig.run("delete from saga")
    assert await rig.process(rig.wakeup_record(armed.model_copy(update={"generation": 9}))) == []
    assert await rig.dead_letters() == []


async def test_a_wake_up_of_a_saga_that_waits_for_a_person_is_taken_and_decides_nothing(
    rig: Rig,
) -> None:
    sent = await rig.process(rig.start_record())
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    assert await rig.value("select status from saga") == "MANUAL_INTERVENTION"
    assert commands(await rig.process(rig.wakeup_record(armed))) == []
    assert await rig.value("select armed_at_ms from saga") is None
    await rig.operations.perform("acme", rig.saga("ORD-1"), Retry(operation("r")))
    assert await rig.value("select armed_at_ms from saga") is not None
