"""Bulk operations: bounded, resumable, each saga once, and nobody who refused is forgotten."""

import asyncio
import contextlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from sagabus_core.engine import ManagementEvent
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
from sagabus_orchestrator.operations import OperationOutcome, Terms
from sagabus_orchestrator.quotas import OPERATION
from sagabus_orchestrator.tenants import DAY_MS
from sagabus_runtime import failpoints
from sagabus_testkit import eventually

from .support import Rig, Shell, commands, order, pause, resume

ADA = By("ada", "enough")
ORDERS = BulkFilter(tenants=["acme"], workflow="order")
ACTIVE = replace(ORDERS, control=Control.ACTIVE)
"""What a pause changes does not match any more."""


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


KILLED_AT = (
    *("bulk.after-count", "orchestrator.after-find-operation", "orchestrator.after-outbox"),
    *("orchestrator.after-audit", "store.commit", "store.after-commit"),
    *("bulk.after-refusal", "bulk.before-progress"),
)


@pytest.mark.parametrize("which", [ORDERS, ACTIVE], ids=["orders", "active"])
async def test_interrupted_anywhere_it_goes_on_and_counts_each_saga_once(
    rig: Rig, which: BulkFilter
) -> None:
    await begin(rig, 60)
    for number in range(0, 60, 5):
        await rig.break_snapshot(f"ORD-{number}")
    begun = await bulks(rig).start(wanted(which=which))
    crashes = 0
    for point in KILLED_AT:
        for nth in (1, 2):
            with failpoints.armed(f"{point}=error:57P01@{nth}"):
                try:
                    await worker(rig).tick()
                except SagabusError:
                    crashes += 1
            await rig.run("update bulk set due_at = clock_timestamp()")  # its lease has run out
    assert crashes > len(KILLED_AT)
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.failed) == (BulkState.DONE, 48, 12)
    assert await rig.count("operation") == 48
    assert await rig.count("bulk_refusal") == 12
    assert await rig.count("journal where fact like '%\"control\"%'::bytea") == 48


async def test_no_more_sagas_are_changed_than_allowed_although_it_is_interrupted(rig: Rig) -> None:
    await begin(rig, 5)
    begun = await bulks(rig).start(wanted(which=ACTIVE, most=5))
    with failpoints.armed("bulk.before-progress=error:57P01@1"), pytest.raises(SagabusError):
        await worker(rig).tick()
    for number in range(5):  # they match again
        await rig.operations.perform("acme", rig.saga(f"ORD-{number}"), resume(f"r{number}"))
    await rig.run("update bulk set due_at = clock_timestamp()")
    assert (await finish(rig, begun)).done == 5
    assert await rig.count("saga where control = 'PAUSED'") == 0


async def test_a_defect_that_one_saga_brings_to_light_stops_nobody_else(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begin(rig, 5)
    broken, attempt = rig.saga("ORD-3"), rig.operations.attempt
    tried = []

    async def fragile(
        tenant: str, saga_id: str, event: ManagementEvent, terms: Terms
    ) -> OperationOutcome:
        if saga_id == broken:
            tried.append(saga_id)
            raise KeyError("secret")
        return await attempt(tenant, saga_id, event, terms)

    monkeypatch.setattr(rig.operations, "attempt", fragile)
    begun = await bulks(rig).start(wanted())
    with failpoints.armed("orchestrator.after-lock=error:57P01@1"), pytest.raises(SagabusError):
        await worker(rig).tick()
    assert "after the outage" in (await bulks(rig).get(begun.id)).note
    await rig.run("update bulk set due_at = clock_timestamp()")
    ended = await finish(rig, begun)
    assert (ended.state, ended.done, ended.failed) == (BulkState.DONE, 4, 1)
    assert BulkWorker.ATTEMPTS <= len(tried) <= 2 * BulkWorker.ATTEMPTS
    (refusal,) = await bulks(rig).refusals(ended.id, 10)
    assert (refusal.business_key, refusal.code) == ("ORD-3", "unexpected_error")
    assert "secret" not in refusal.detail


async def test_sagas_that_cannot_be_read_are_listed_as_failed(rig: Rig) -> None:
    await begin(rig, 4)
    await rig.break_snapshot("ORD-1")
    await rig.break_snapshot("ORD-2", version=99)
    for name, which in (("a", ORDERS), ("b", replace(ORDERS, participant="inventory"))):
        ended = await finish(rig, await bulks(rig).start(wanted(which=which, name=name)))
        assert (ended.state, ended.failed) == (BulkState.DONE, 2)
        told = {r.business_key: r.code for r in await bulks(rig).refusals(ended.id, 10)}
        assert told["ORD-2"] == "snapshot_too_new"
        assert "ORD-1" in told


async def test_a_bulk_that_cannot_be_read_is_stopped_and_keeps_no_other(rig: Rig) -> None:
    await begin(rig, 1)
    broken = await bulks(rig).start(wanted(name="a"))
    await rig.run('update bulk set filter = \'{"control": "of a later release"}\'')
    good = await bulks(rig).start(wanted(name="b"))
    assert (await finish(rig, good)).state is BulkState.DONE
    row = f"select state || ' ' || note from bulk where id = '{broken.id}'"
    assert str(await rig.value(row)).startswith("paused unexpected_error")
    assert await rig.count("audit where kind = 'bulk:stop' and actor = 'sagabus'") == 1


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
    with failpoints.armed("orchestrator.after-lock=stall:300ms@1"):
        late = asyncio.create_task(worker(rig).tick())
        await eventually(lambda: failpoints.hits("orchestrator.after-lock") == 1)
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


async def test_steered_from_two_sides_while_it_is_worked_off(rig: Rig) -> None:
    await begin(rig, 60)
    begun = await bulks(rig).start(wanted(which=ACTIVE))
    steered = 0

    async def steer(by: By, *states: BulkState) -> None:
        nonlocal steered
        for state in states:
            with contextlib.suppress(Refused):
                await bulks(rig).steer(begun.id, state, by)
                steered += 1

    async def work() -> None:
        while (await bulks(rig).get(begun.id)).state is not BulkState.DONE:
            await worker(rig).tick()

    working = [asyncio.create_task(work()) for _ in range(2)]
    both = (BulkState.PAUSED, BulkState.RUNNING) * 4
    await asyncio.gather(steer(ADA, *both), steer(By("bob", "mine"), *both))
    await steer(ADA, BulkState.RUNNING)
    await asyncio.gather(*working)
    ended = await bulks(rig).get(begun.id)
    assert (ended.state, ended.done) == (BulkState.DONE, 60)
    assert await rig.count("operation") == 60
    audited = "audit where kind in ('bulk:pause', 'bulk:resume') and outcome = 'done'"
    assert await rig.count(audited) == steered


@pytest.mark.parametrize("state", [BulkState.CANCELLED, BulkState.PAUSED])
async def test_once_it_is_told_to_stop_no_further_saga_is_changed(
    rig: Rig, state: BulkState
) -> None:
    await begin(rig, 10)
    begun = await bulks(rig).start(wanted())
    with failpoints.armed("orchestrator.after-lock=stall:300ms@3"):
        working = asyncio.create_task(worker(rig).tick())
        await eventually(lambda: failpoints.hits("orchestrator.after-lock") == 3)
        stopped = await bulks(rig).steer(begun.id, state, ADA)
        await working
    assert await rig.count("operation") == stopped.done == 2
    assert (await bulks(rig).get(begun.id)).state is state


async def test_tenants_read_that_the_platform_acts_on_all_and_no_more(rig: Rig) -> None:
    await begin(rig, 1)
    begun = await bulks(rig).start(wanted(which=BulkFilter(workflow="order")))
    await finish(rig, begun)
    fact = (await rig.facts("ORD-0"))[-1]
    assert (fact["actor"], fact["reason"]) == (
        *("platform", f"bulk operation of the platform (bulk {begun.id})"),
    )
    rows = "select string_agg(actor || reason, ' ') from audit where tenant = 'acme'"
    assert "storm" not in str(await rig.value(f"{rows} and kind = 'saga:pause'"))
    row = "select actor || ' ' || reason || ' ' || tenant from audit where kind = 'bulk:start'"
    assert await rig.value(row) == "ada a storm "


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
    everything = await bulks(rig).start(wanted(which=BulkFilter(), name="bulk-2"))
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
