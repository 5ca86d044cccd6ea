"""Bulk operations: bounded, resumable, each saga once, and nobody who refused is forgotten."""

import asyncio
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import Control, ResultStatus, SagaStatus
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.bulk import (
    Bulk,
    BulkFilter,
    BulkKind,
    BulkOrder,
    Bulks,
    BulkState,
    BulkWorker,
)
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.quotas import OPERATION
from sagabus_orchestrator.tenants import DAY_MS
from sagabus_runtime import failpoints
from sagabus_testkit import eventually

from .support import Rig, Shell, commands, order, pause

ADA = By("ada", "enough")
ORDERS = BulkFilter(workflow="order")


def wanted(
    kind: BulkKind = BulkKind.PAUSE,
    which: BulkFilter = ORDERS,
    most: int = 100,
    name: str = "bulk-1",
    permitted: frozenset[str] | None = None,
) -> BulkOrder:
    return BulkOrder(kind, which, most, "ada", "a storm", name, permitted)


def bulks(rig: Rig) -> Bulks:
    return Bulks(rig.database, rig.watcher)


def worker(rig: Rig) -> BulkWorker:
    return BulkWorker(rig.database, rig.operations, rig.watcher)


async def finish(rig: Rig, bulk: Bulk) -> Bulk:
    while await worker(rig).tick():
        pass
    return await bulks(rig).get(bulk.id)


async def begin(rig: Rig, count: int) -> None:
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(count)))


async def test_every_saga_that_matches_is_changed_once_and_audited(rig: Rig) -> None:
    await rig.publish(order(workflow="refund"))
    await begin(rig, 45)
    await rig.process(rig.start_record("R-1", workflow="refund"))
    begun = await bulks(rig).start(wanted())
    assert (begun.state, begun.handled) == (BulkState.RUNNING, 0)
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.refused, ended.failed) == (BulkState.DONE, 45, 0, 0)
    assert await rig.count("saga where control = 'PAUSED'") == 45
    assert await rig.value("select control from saga where workflow = 'refund'") == "ACTIVE"
    assert await rig.count("audit where kind = 'saga:pause' and actor = 'ada'") == 45
    assert await rig.count("audit where kind = 'bulk:start'") == 1
    fact = (await rig.facts("ORD-7"))[-1]
    assert fact["reason"] == f"a storm (bulk {begun.id})"


async def test_the_same_operation_id_starts_nothing_more(rig: Rig) -> None:
    await begin(rig, 3)
    first = await bulks(rig).start(wanted())
    await finish(rig, first)
    again = await bulks(rig).start(wanted())
    assert (again.id, again.state, again.done) == (first.id, BulkState.DONE, 3)
    with pytest.raises(Refused) as found:
        await bulks(rig).start(wanted(BulkKind.CANCEL))
    assert found.value.code == "operation_id_reused"
    rivals = [bulks(rig).start(wanted(name="bulk-2")) for _ in range(10)]
    assert len({bulk.id for bulk in await asyncio.gather(*rivals)}) == 1
    assert await rig.count("bulk") == 2


async def test_more_sagas_than_allowed_are_refused_before_anything_happens(rig: Rig) -> None:
    await begin(rig, 5)
    count, samples = await bulks(rig).count(wanted(most=3))
    assert (count, len(samples)) == (4, 4)
    with pytest.raises(Refused) as found:
        await bulks(rig).start(wanted(most=4))
    assert found.value.code == "bulk_too_large"
    assert await rig.count("bulk") == 0
    assert await rig.count("audit where kind = 'bulk:start' and outcome = 'refused'") == 1


@pytest.mark.parametrize("point", ["bulk.before-progress", "orchestrator.after-outbox"])
async def test_interrupted_anywhere_it_goes_on_and_repeats_nothing(rig: Rig, point: str) -> None:
    await begin(rig, 30)
    begun = await bulks(rig).start(wanted())
    for nth in (1, 2, 7):
        with failpoints.armed(f"{point}=error:57P01@{nth}"):
            try:
                while await worker(rig).tick():
                    pass
            except SagabusError:
                pass
        await rig.run("update bulk set due_at = clock_timestamp()")  # its lease has run out
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.refused) == (BulkState.DONE, 30, 0)
    assert await rig.count("operation") == 30
    assert await rig.count("journal where fact like '%\"control\"%'::bytea") == 30


async def test_workers_at_once_do_each_saga_once(rig: Rig) -> None:
    await begin(rig, 60)
    begun = await bulks(rig).start(wanted())

    async def work() -> None:
        while (await bulks(rig).get(begun.id)).state is BulkState.RUNNING:
            await worker(rig).tick()

    await asyncio.gather(*(work() for _ in range(3)))
    ended = await bulks(rig).get(begun.id)
    assert (ended.done, ended.refused) == (60, 0)
    assert await rig.count("operation") == 60


async def test_a_worker_that_lost_its_turn_writes_no_progress(rig: Rig) -> None:
    await begin(rig, 3)
    begun = await bulks(rig).start(wanted())
    with failpoints.armed("orchestrator.after-outbox=stall:300ms@1"):
        late = asyncio.create_task(worker(rig).tick())
        await eventually(lambda: failpoints.hits("orchestrator.after-outbox") == 1)
        await rig.run("update bulk set due_at = clock_timestamp()")
        ended = await finish(rig, begun)
        await late
    assert (ended.done, (await bulks(rig).get(begun.id)).done) == (3, 3)


async def test_who_refuses_is_listed_with_the_reason_and_stops_nobody(rig: Rig) -> None:
    await begin(rig, 4)
    await rig.operations.perform("acme", rig.saga("ORD-2"), pause("p"))
    ended = await finish(rig, await bulks(rig).start(wanted()))
    assert (ended.done, ended.refused) == (3, 1)
    (refusal,) = await bulks(rig).refusals(ended.id, 10)
    assert (refusal.business_key, refusal.code) == ("ORD-2", "precondition_failed")
    assert await rig.count("audit where outcome = 'refused'") == 0, "they stand with the bulk"


async def test_what_the_actor_may_not_do_is_refused_saga_by_saga(rig: Rig) -> None:
    sent = await rig.process(rig.start_record("ORD-1"))
    await rig.process(rig.result_record(commands(sent)[0], ResultStatus.HALTED))
    only = frozenset({"retry_compensation"})
    ended = await finish(rig, await bulks(rig).start(wanted(BulkKind.RETRY, permitted=only)))
    assert [r.code for r in await bulks(rig).refusals(ended.id, 10)] == ["permission_denied"]
    both = only | {"retry_step"}
    order_ = wanted(BulkKind.RETRY, permitted=both, name="bulk-2")
    assert (await finish(rig, await bulks(rig).start(order_))).done == 1


async def test_a_full_window_of_operations_makes_it_wait_not_refuse(rig: Rig) -> None:
    await begin(rig, 5)
    await rig.tenants.set_rate("acme", OPERATION, 2, DAY_MS)
    begun = await bulks(rig).start(wanted())
    assert await worker(rig).tick()
    held = await bulks(rig).get(begun.id)
    assert (held.state, held.done, held.refused) == (BulkState.RUNNING, 2, 0)
    assert held.note.startswith("rate_limit_exceeded")
    assert not await worker(rig).tick(), "it tries again later"
    await rig.run("update action_rate set most = 10")
    await rig.run("update bulk set due_at = clock_timestamp()")
    assert (await finish(rig, begun)).done == 5


async def test_it_is_held_gone_on_with_and_cancelled(rig: Rig) -> None:
    await begin(rig, 50)
    begun = await bulks(rig).start(wanted())
    assert await worker(rig).tick()
    await bulks(rig).steer(begun.id, BulkState.PAUSED, ADA)
    assert not await worker(rig).tick()
    await bulks(rig).steer(begun.id, BulkState.RUNNING, ADA)
    assert await worker(rig).tick()
    ended = await bulks(rig).steer(begun.id, BulkState.CANCELLED, ADA)
    assert (ended.state, ended.done) == (BulkState.CANCELLED, 40)
    assert not await worker(rig).tick()
    for state in (BulkState.RUNNING, BulkState.PAUSED, BulkState.CANCELLED):
        with pytest.raises(Refused):
            await bulks(rig).steer(begun.id, state, ADA)
    assert await rig.count("audit where kind like 'bulk:%' and outcome = 'done'") == 4


async def test_sagas_that_begin_later_are_not_meant(rig: Rig) -> None:
    await begin(rig, 2)
    begun = await bulks(rig).start(wanted())
    await rig.process(*(rig.start_record(f"LATE-{n}") for n in range(5)))
    assert (await finish(rig, begun)).done == 2


async def test_filters(rig: Rig) -> None:
    sent = await rig.process(
        rig.start_record("A-1"), rig.start_record("A-2"), rig.start_record("B-1", tenant="other")
    )
    reserve = next(c for c in commands(sent) if c.business_key == "A-2")
    await rig.process(rig.result_record(reserve))  # it is asked of payment now
    await rig.operations.perform("acme", rig.saga("A-1"), pause("p"))

    async def keys(which: BulkFilter) -> set[str]:
        _, found = await bulks(rig).count(wanted(which=which))
        return {each.business_key for each in found}

    now, hour = datetime.now(UTC), timedelta(hours=1)
    assert await keys(BulkFilter()) == {"A-1", "A-2", "B-1"}
    assert await keys(BulkFilter(tenants=["other"])) == {"B-1"}
    assert await keys(BulkFilter(tenants=[])) == set()
    assert await keys(BulkFilter(key_prefix="A-")) == {"A-1", "A-2"}
    assert await keys(BulkFilter(control=Control.ACTIVE)) == {"A-2", "B-1"}
    assert await keys(BulkFilter(statuses=[SagaStatus.MANUAL_INTERVENTION])) == set()
    assert await keys(BulkFilter(participant="payment")) == {"A-2"}
    assert await keys(BulkFilter(step="reserve")) == {"A-1", "B-1"}
    assert await keys(BulkFilter(participant="payment", step="reserve")) == set()
    assert await keys(BulkFilter(since=now - hour, until=now + hour)) == {"A-1", "A-2", "B-1"}
    assert await keys(BulkFilter(until=now - hour)) == set()


async def test_a_scope_sees_only_bulks_within_it(rig: Rig) -> None:
    own = await bulks(rig).start(wanted(which=BulkFilter(tenants=["acme"])))
    everything = await bulks(rig).start(wanted(name="bulk-2"))
    assert [b.id for b in await bulks(rig).list(10, ["acme", "zoo"])] == [own.id]
    assert {b.id for b in await bulks(rig).list(10)} == {own.id, everything.id}
    newest, *_ = await bulks(rig).list(10)
    assert newest.id not in {b.id for b in await bulks(rig).list(10, below=newest)}
    for hidden in (everything.id, str(UUID(int=7))):
        with pytest.raises(NotFound):
            await bulks(rig).get(hidden, ["acme"])
        with pytest.raises(NotFound):
            await bulks(rig).steer(hidden, BulkState.CANCELLED, ADA, ["acme"])


async def test_the_command(rig: Rig, shell: Shell) -> None:
    await begin(rig, 3)
    words = ("bulk", "start", "pause", "--where", "workflow=order", "--reason", "storm")
    said = await shell(*words, "--max", "2", "--dry-run")
    assert (said["matching"], len(said["samples"])) == (3, 3)
    said = await shell(*words, "--max", "2", code=4)
    assert said["error"]["code"] == "bulk_too_large"
    begun = await shell(*words, "--max", "10", "--operation-id", "x")
    meant = {name: value for name, value in begun["filter"].items() if value is not None}
    assert (begun["state"], meant) == ("running", {"workflow": "order"})
    working = asyncio.create_task(until_done(rig, begun["id"]))
    watched = await shell("bulk", "show", begun["id"], "--watch")
    await working
    assert (watched["state"], watched["done"]) == ("done", 3)
    assert [bulk["id"] for bulk in (await shell("bulk", "list"))["bulk_operations"]] == [
        begun["id"]
    ]
    said = await shell("bulk", "cancel", begun["id"], "--reason", "late", code=4)
    assert said["error"]["code"] == "precondition_failed"
    for wrong in ("status=NO", "colour=red", "workflow"):
        line = ("bulk", "start", "pause", "--where", wrong, "--reason", "x", "--max", "1")
        assert (await shell(*line, code=2))["error"]["code"] == "usage"


async def until_done(rig: Rig, bulk_id: str) -> None:
    while (await bulks(rig).get(bulk_id)).state is BulkState.RUNNING:
        await worker(rig).tick()


async def test_a_bulk_that_nobody_works_on_is_told(rig: Rig, shell: Shell) -> None:
    await begin(rig, 1)
    begun = await bulks(rig).start(wanted())
    await rig.run("update bulk set due_at = due_at - interval '2 minutes'")
    assert (await shell("bulk", "show", begun.id))["overdue"] is True
