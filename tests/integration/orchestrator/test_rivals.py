"""Replicas at once: the same keys, the same records, overlapping batches, no deadlock."""

import asyncio
import random

from sagabus_core.errors import SagabusError
from sagabus_messages import Record, WakeupRequest

from .support import Rig, commands, lifecycle


async def until_done(rig: Rig, records: list[Record]) -> None:
    """Process as a consumer would: what the store could not do now is tried again."""
    while (error := await attempt(rig, records)) is not None:
        assert getattr(error, "retryable", False), error
        assert "40P01" not in str(error), "a deadlock"


async def attempt(rig: Rig, records: list[Record]) -> Exception | None:
    try:
        await rig.handler.process(records)
    except SagabusError as error:
        return error
    return None


async def test_different_starts_of_a_key_in_replicas_make_one_saga(rig: Rig) -> None:
    records = [rig.start_record("ORD-1", payload={"sku": f"sku-{n % 4}"}) for n in range(16)]
    await asyncio.gather(*(until_done(rig, [record]) for record in records))
    sent = await rig.read_outbox()
    assert await rig.count("saga") == 1
    assert len(commands(sent)) == 1
    assert sum(event.status == "START_REFUSED" for event in lifecycle(sent)) == 12
    assert len(lifecycle(sent)) == 16


async def test_a_rival_that_took_the_last_headroom_is_a_repeat_and_no_refusal(rig: Rig) -> None:
    await rig.set_quota("acme", 1)
    records = [rig.start_record("ORD-1", start_id=f"start-{n}") for n in range(8)]
    await asyncio.gather(*(until_done(rig, [record]) for record in records))
    told = [event.status for event in lifecycle(await rig.read_outbox())]
    assert told == ["RUNNING"] * 8


async def test_trap_12_the_same_records_in_two_replicas_count_once(rig: Rig) -> None:
    starts = [rig.start_record(f"ORD-{n}") for n in range(20)]
    await asyncio.gather(*(until_done(rig, starts) for _ in range(4)))
    sent = await rig.read_outbox()
    assert len(commands(sent)) == len(lifecycle(sent)) == 20
    results = [rig.result_record(command) for command in commands(sent)]
    await asyncio.gather(*(until_done(rig, results) for _ in range(4)))
    assert len(commands(await rig.read_outbox())) == 20


async def test_overlapping_batches_in_any_order_never_deadlock(rig: Rig) -> None:
    await rig.set_quota("acme", 1_000)
    await rig.set_quota("other", 1_000)
    rng = random.Random(7)
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(30)))
    armed = [message for message in sent if isinstance(message, WakeupRequest)]
    pool = [rig.result_record(command) for command in commands(sent)]
    pool += [rig.wakeup_record(request) for request in armed]
    pool += [rig.start_record(f"NEW-{n % 20}", tenant=("acme", "other")[n % 2]) for n in range(60)]
    batches = [rng.sample(pool, 25) for _ in range(24)]
    await asyncio.gather(*(until_done(rig, batch) for batch in batches))
    assert await rig.count("saga") == 50
    active = await rig.value("select sum(active) from tenant_quota")
    assert active == await rig.count("saga")
