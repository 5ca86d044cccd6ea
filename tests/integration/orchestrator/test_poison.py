"""One record that cannot be handled stands alone among the dead letters; all others go on."""

from collections.abc import Sequence

import pytest

from sagabus_bus import BatchWorker, ConsumerEvents, WorkerOptions
from sagabus_messages import OutboxRow, Record
from sagabus_runtime import Health, Pulse, new_registry
from sagabus_runtime.backoff import BackOffPolicy

from .support import Rig, commands

QUICK = WorkerOptions(outage=BackOffPolicy(1, 5), suspicion=BackOffPolicy(1, 5))


@pytest.fixture
def worker(rig: Rig) -> BatchWorker:
    return BatchWorker(rig.handler, ConsumerEvents("test"), QUICK)


@pytest.fixture
def pulse() -> Pulse:
    return Health(new_registry()).pulse("test", deadline_ms=60_000)


async def running(rig: Rig, count: int) -> Sequence[Record]:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(count)))
    return [rig.result_record(command) for command in commands(sent)]


async def test_trap_04_a_saga_that_breaks_the_code_is_dead_lettered_alone(
    rig: Rig, worker: BatchWorker, pulse: Pulse
) -> None:
    results = await running(rig, 50)
    await rig.break_snapshot("ORD-17")
    await worker.work(results, pulse)

    assert await rig.dead_letters() == ["unexpected_error"]
    sent = commands(await rig.read_outbox())
    assert {command.step for command in sent} == {"charge"}
    assert {command.business_key for command in sent} == {f"ORD-{n}" for n in range(50) if n != 17}


async def test_a_dead_letter_of_poison_claims_nothing(
    rig: Rig, worker: BatchWorker, pulse: Pulse
) -> None:
    results = await running(rig, 3)
    mended = await rig.break_snapshot("ORD-1")
    await worker.work(results, pulse)
    assert await rig.count("inbox") == 5
    await rig.restore_snapshot("ORD-1", mended)
    await rig.read_outbox()
    sent = await rig.process(*results)
    assert [command.business_key for command in commands(sent)] == ["ORD-1"]


async def test_data_that_postgres_refuses_stands_alone(
    rig: Rig, worker: BatchWorker, pulse: Pulse
) -> None:
    starts = [rig.start_record(f"ORD-{n}") for n in range(10)]
    await rig.forbid_key("ORD-4")
    await worker.work(starts, pulse)
    assert await rig.dead_letters() == ["store_rejected"]
    assert await rig.count("saga") == 9


async def test_rubbish_beside_poison_is_written_once(
    rig: Rig, worker: BatchWorker, pulse: Pulse
) -> None:
    results = list(await running(rig, 8))
    await rig.break_snapshot("ORD-3")
    rubbish = [rig.record(OutboxRow("sagabus.start.v1", b"k", (), b"{}")) for _ in range(3)]
    await worker.work([*results[:4], *rubbish, *results[4:]], pulse)
    assert sorted(await rig.dead_letters()) == ["missing_header"] * 3 + ["unexpected_error"]
    assert len(commands(await rig.read_outbox())) == 7


async def test_a_snapshot_of_a_newer_release_holds_the_batch(rig: Rig) -> None:
    (result,) = await running(rig, 1)
    before = await rig.break_snapshot("ORD-0", version=99)
    with pytest.raises(Exception, match=r"newer") as held:
        await rig.handler.process([result])
    assert getattr(held.value, "retryable", False)
    assert await rig.dead_letters() == []
    await rig.restore_snapshot("ORD-0", before)
    assert len(commands(await rig.process(result))) == 1
