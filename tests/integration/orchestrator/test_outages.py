"""An outage is no poison: nothing is half written, nothing set aside, the retry succeeds."""

import asyncio

import pytest

from sagabus_bus import BatchWorker, ConsumerEvents, WorkerOptions
from sagabus_core.vocabulary import SagaStatus
from sagabus_runtime import Health, failpoints, new_registry
from sagabus_runtime.backoff import BackOffPolicy
from sagabus_store import CommitUnknown, StoreUnavailable

from .support import Rig, commands, lifecycle

QUICK = WorkerOptions(outage=BackOffPolicy(1, 5), suspicion=BackOffPolicy(1, 5))
TABLES = ("saga", "saga_key", "journal", "outbox", "inbox", "deferred_message")
STATES = ("08006", "40001", "40P01", "53300", "55P03", "57P01", "connection", "timeout")


async def counts(rig: Rig) -> dict[str, int]:
    return {table: await rig.count(table) for table in TABLES}


@pytest.mark.parametrize("kind", STATES)
async def test_an_outage_writes_nothing_and_the_retry_succeeds(rig: Rig, kind: str) -> None:
    sent = await rig.process(rig.start_record("ORD-1"))
    records = [rig.result_record(commands(sent)[0]), rig.start_record("ORD-2")]
    before = await counts(rig)
    fault = failpoints.armed(f"orchestrator.after-outbox=error:{kind}")
    with fault, pytest.raises(StoreUnavailable):
        await rig.handler.process(records)
    assert await counts(rig) == before
    sent = await rig.process(*records)
    assert {command.step for command in commands(sent)} == {"charge", "reserve"}


@pytest.mark.parametrize("point", ["store.before-commit", "store.commit", "store.after-commit"])
async def test_a_lost_commit_is_found_out_by_the_next_delivery(rig: Rig, point: str) -> None:
    record = rig.start_record("ORD-1")
    with failpoints.armed(f"{point}=error:08006"), pytest.raises(StoreUnavailable) as lost:
        await rig.handler.process([record])
    assert isinstance(lost.value, CommitUnknown) or point != "store.commit"
    await rig.process(record)
    assert [event.status for event in lifecycle(rig.sent)] == [SagaStatus.RUNNING]
    assert len(commands(rig.sent)) == 1
    assert await rig.count("journal") == await rig.count("journal where revision = 1")


@pytest.mark.parametrize("hits", [1, 3])
async def test_the_worker_holds_the_batch_through_an_outage(rig: Rig, hits: int) -> None:
    worker = BatchWorker(rig.handler, ConsumerEvents("test"), QUICK)
    pulse = Health(new_registry()).pulse("test", deadline_ms=60_000)
    records = [rig.start_record(f"ORD-{n}") for n in range(20)]
    left = hits

    def fail() -> None:
        nonlocal left
        if left:
            left -= 1
            raise ConnectionResetError

    with failpoints.on("orchestrator.after-journal", fail):
        await worker.work(records, pulse)
    assert await rig.dead_letters() == []
    assert await rig.count("saga") == 20


async def test_trap_13_a_server_that_kills_the_session_in_the_middle_loses_nothing(
    rig: Rig,
) -> None:
    record = rig.start_record("ORD-1")
    with failpoints.armed("orchestrator.after-journal=stall:300ms"):
        task = asyncio.create_task(rig.handler.process([record]))
        await rig.kill_sessions()
        with pytest.raises(StoreUnavailable):
            await task
    assert await rig.count("saga") == 0
    await rig.process(record)
    assert await rig.count("saga") == 1
