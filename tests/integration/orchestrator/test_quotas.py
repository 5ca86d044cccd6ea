"""Quotas of sagas that are not terminal: headroom in offset order, one change per tenant."""

import asyncio

from sagabus_core.engine import ManualClose
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import START_REFUSED, Record

from .support import Rig, commands, lifecycle, operation


async def active(rig: Rig, tenant: str = "acme") -> object:
    return await rig.value("select active from tenant_quota where tenant = $1", tenant)


async def test_starts_take_the_headroom_in_offset_order(rig: Rig) -> None:
    await rig.set_quota("acme", 3)
    sent = await rig.process(*(rig.start_record(f"ORD-{n}", start_id=f"s{n}") for n in range(5)))
    assert [(event.start_id, event.reason_code) for event in lifecycle(sent)] == [
        ("s3", "tenant_quota_exceeded"),
        ("s4", "tenant_quota_exceeded"),
        *((f"s{n}", None) for n in range(3)),
    ]
    assert await active(rig) == 3
    assert await rig.count("saga_key") == 3


async def test_a_refused_start_does_not_burn_its_key(rig: Rig) -> None:
    await rig.set_quota("acme", 0)
    await rig.process(rig.start_record("ORD-1"))
    await rig.set_quota("acme", 1)
    assert len(commands(await rig.process(rig.start_record("ORD-1")))) == 1


async def test_an_end_gives_back_what_a_later_start_of_the_batch_takes(rig: Rig) -> None:
    await rig.set_quota("acme", 1)
    (command,) = commands(await rig.process(rig.start_record("ORD-1")))
    refused = rig.result_record(command, ResultStatus.REJECTED)
    sent = await rig.process(
        rig.start_record("ORD-2", start_id="before"),
        refused,
        rig.start_record("ORD-3", start_id="after"),
    )
    told = {event.start_id: event.status for event in lifecycle(sent)}
    assert told["before"] == START_REFUSED
    assert told["after"] == "RUNNING"
    assert await active(rig) == 1


async def test_repeats_and_refusals_take_nothing(rig: Rig) -> None:
    await rig.set_quota("acme", 10)
    record = rig.start_record("ORD-1")
    await rig.process(record, record, rig.start_record("ORD-1"), rig.start_record("X", version=9))
    await rig.process(record)
    assert await active(rig) == 1


async def test_tenants_without_a_quota_are_not_limited(rig: Rig) -> None:
    await rig.set_quota("acme", 1)
    records = [rig.start_record(f"ORD-{n}", tenant="free") for n in range(5)]
    assert len(commands(await rig.process(*records))) == 5
    assert await active(rig) == 0


async def test_an_operation_that_ends_a_saga_gives_back(rig: Rig) -> None:
    await rig.set_quota("acme", 1)
    (command,) = commands(await rig.process(rig.start_record("ORD-1")))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    await rig.operations.perform("acme", rig.saga("ORD-1"), ManualClose(operation("c")))
    assert await active(rig) == 0
    await rig.operations.perform("acme", rig.saga("ORD-1"), ManualClose(operation("c")))
    assert await active(rig) == 0


async def test_replicas_never_go_beyond_the_limit(rig: Rig) -> None:
    await rig.set_quota("acme", 7)
    batches = [[rig.start_record(f"ORD-{b}-{n}") for n in range(4)] for b in range(6)]
    await asyncio.gather(*(rig.handler.process(batch) for batch in batches))
    assert await rig.count("saga") == 7
    assert await active(rig) == 7
    assert len(lifecycle(await rig.read_outbox())) == 24


async def test_setting_a_quota_counts_what_runs_even_while_starts_are_in_flight(rig: Rig) -> None:
    batches: list[list[Record]] = [
        [rig.start_record(f"ORD-{b}-{n}") for n in range(5)] for b in range(8)
    ]
    await asyncio.gather(
        *(rig.handler.process(batch) for batch in batches[:4]),
        rig.set_quota("acme", 1_000),
        *(rig.handler.process(batch) for batch in batches[4:]),
        rig.set_quota("acme", 2_000),
    )
    assert await rig.count("saga") == 40
    assert await active(rig) == 40
    assert await rig.tenants.remove_quota("acme")
    assert not await rig.tenants.remove_quota("acme")
