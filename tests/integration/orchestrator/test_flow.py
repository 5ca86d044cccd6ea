"""A saga through the shell: each batch is one transaction, whatever it holds."""

import asyncio

from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus
from sagabus_messages import WakeupRequest

from .support import Rig, commands, lifecycle


async def test_a_start_creates_the_saga_and_its_first_command(rig: Rig) -> None:
    sent = await rig.process(rig.start_record(start_id="start-1"))

    (command,) = commands(sent)
    assert (command.step, command.phase, command.attempt) == ("reserve", Phase.EXECUTE, 1)
    assert command.payload is not None
    assert command.payload.body == b'{"sku":"widget"}'
    (event,) = lifecycle(sent)
    assert (event.status, event.start_id, event.revision) == (SagaStatus.RUNNING, "start-1", 1)
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    assert armed.at_ms is not None


async def test_success_all_the_way_completes(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    for step in ("reserve", "charge", "ship", "confirm"):
        (command,) = commands(sent)
        assert command.step == step
        sent = await rig.process(rig.result_record(command))
    assert [event.status for event in lifecycle(sent)] == [SagaStatus.COMPLETED]
    assert await rig.count("saga where status = 'COMPLETED' and ended_at = updated_at") == 1


async def test_trap_15_a_rejection_is_compensated_in_reverse_order(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    sent = await rig.process(rig.result_record(commands(sent)[0]))
    sent = await rig.process(rig.result_record(commands(sent)[0], ResultStatus.REJECTED))
    (undo,) = commands(sent)
    assert (undo.step, undo.phase) == ("reserve", Phase.COMPENSATE)
    sent = await rig.process(rig.result_record(undo))
    assert lifecycle(sent)[-1].status == SagaStatus.COMPENSATED


async def test_a_repeated_result_changes_nothing(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    result = rig.result_record(commands(sent)[0])
    first = await rig.process(result, result)
    assert [command.step for command in commands(first)] == ["charge"]
    assert await rig.process(result) == []


async def test_many_sagas_of_a_batch_are_decided_together(rig: Rig) -> None:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(50)))
    assert len(commands(sent)) == 50
    sent = await rig.process(*(rig.result_record(command) for command in commands(sent)))
    assert {command.step for command in commands(sent)} == {"charge"}


async def test_a_wake_up_of_the_armed_generation_times_the_step_out(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    early = await rig.process(rig.wakeup_record(armed))
    assert commands(early) == []  # delivered before its time: armed again, nothing is decided
    (again,) = [message for message in early if isinstance(message, WakeupRequest)]
    assert again.generation > armed.generation


async def test_replicas_that_start_the_same_key_make_one_saga(rig: Rig) -> None:
    records = [rig.start_record("ORD-1") for _ in range(20)]
    outcomes = await asyncio.gather(
        *(rig.handler.process([record]) for record in records), return_exceptions=True
    )
    retry = [
        record
        for record, outcome in zip(records, outcomes, strict=True)
        if isinstance(outcome, BaseException)
    ]
    assert all(getattr(o, "retryable", True) for o in outcomes if isinstance(o, Exception))
    await rig.process(*retry)
    assert await rig.count("saga") == 1
    assert len(commands(rig.sent)) == 1
    assert len(lifecycle(rig.sent)) == 20
