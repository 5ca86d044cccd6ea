"""Action rates: so many starts and operations in a window of the database clock."""

import asyncio

import pytest

from sagabus_core.errors import SagabusError
from sagabus_messages import START_REFUSED
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.quotas import OPERATION, START, Rate
from sagabus_orchestrator.tenants import DAY_MS

from .support import Rig, Shell, lifecycle, pause, resume

MINUTE = 60_000


async def used(rig: Rig, action: str = START, tenant: str = "acme") -> int:
    limits = await rig.tenants.limits([tenant])
    return next(limit.used for limit in limits if limit.action == action)


async def next_window(rig: Rig) -> None:
    """Let the present window be over, without waiting for it."""
    await rig.run("update action_rate set window_no = window_no - 1")


def test_a_window_ends_and_a_clock_that_was_set_back_opens_none() -> None:
    rate = Rate(5, MINUTE, window_no=100, used=3)
    assert rate.used_at(100 * MINUTE) == rate.used_at(101 * MINUTE - 1) == 3
    assert rate.used_at(101 * MINUTE) == 0
    assert rate.used_at(99 * MINUTE) == 3
    assert rate.window_at(99 * MINUTE) == 100


async def test_starts_beyond_the_rate_are_refused_in_offset_order(rig: Rig) -> None:
    await rig.tenants.set_rate("acme", START, 3, DAY_MS)
    sent = await rig.process(*(rig.start_record(f"ORD-{n}", start_id=f"s{n}") for n in range(5)))
    told = {event.start_id: event.reason_code for event in lifecycle(sent)}
    assert told == {"s0": None, "s1": None, "s2": None} | dict.fromkeys(
        ("s3", "s4"), "rate_limit_exceeded"
    )
    assert await used(rig) == 3
    assert await rig.count("saga_key") == 3, "a refused start burns no key"
    await next_window(rig)
    (event,) = lifecycle(await rig.process(rig.start_record("ORD-3")))
    assert (event.status, await used(rig)) == ("RUNNING", 1)


async def test_repeats_and_refused_starts_use_nothing(rig: Rig) -> None:
    await rig.tenants.set_rate("acme", START, 10, DAY_MS)
    record = rig.start_record("ORD-1")
    await rig.process(record, record, rig.start_record("ORD-1"), rig.start_record("X", version=9))
    await rig.process(record, rig.start_record("ORD-1", payload={"sku": "other"}))
    assert await used(rig) == 1


async def test_a_repeat_is_answered_although_the_window_is_full(rig: Rig) -> None:
    await rig.tenants.set_rate("acme", START, 1, DAY_MS)
    await rig.process(rig.start_record("ORD-1"))
    (event,) = lifecycle(await rig.process(rig.start_record("ORD-1", start_id="again")))
    assert (event.start_id, event.status) == ("again", "RUNNING")


async def test_a_tenant_never_feels_the_rate_of_another(rig: Rig) -> None:
    await rig.tenants.set_rate("acme", START, 0, DAY_MS)
    sent = await rig.process(
        rig.start_record("A"), rig.start_record("B", tenant="free"), rig.start_record("C")
    )
    told = {event.business_key: event.status for event in lifecycle(sent)}
    assert told == {"A": START_REFUSED, "B": "RUNNING", "C": START_REFUSED}
    assert await rig.count("action_rate") == 1


async def test_replicas_at_once_never_start_more_than_a_window_holds(rig: Rig) -> None:
    await rig.set_quota("acme", 1_000)
    await rig.tenants.set_rate("acme", START, 7, DAY_MS)
    batches = [[rig.start_record(f"ORD-{b}-{n}") for n in range(4)] for b in range(6)]
    await asyncio.gather(*(rig.handler.process(batch) for batch in batches))
    assert await rig.count("saga") == await used(rig) == 7
    assert len(lifecycle(await rig.read_outbox())) == 24


async def test_only_operations_that_commit_use_the_window(rig: Rig) -> None:
    await rig.process(rig.start_record())
    await rig.tenants.set_rate("acme", OPERATION, 2, DAY_MS)
    saga = rig.saga("ORD-1")
    for _ in range(3):
        await rig.operations.perform("acme", saga, pause("p"))  # repeats but for the first
    with pytest.raises(SagabusError):
        await rig.operations.perform("acme", saga, pause("again"))  # is paused already
    assert await used(rig, OPERATION) == 1
    await rig.operations.perform("acme", saga, resume("r"))
    with pytest.raises(Refused) as full:
        await rig.operations.perform("acme", saga, pause("third"))
    assert full.value.code == "rate_limit_exceeded"
    with pytest.raises(SagabusError) as hidden:
        await rig.operations.perform("evil", saga, pause("fourth"))
    assert hidden.value.code == "not_found", "permission and existence come first"
    await next_window(rig)
    await rig.operations.perform("acme", saga, pause("third"))
    assert await used(rig, OPERATION) == 1


async def test_a_hundred_operations_at_once_stay_within_the_window(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(30)))
    await rig.tenants.set_rate("acme", OPERATION, 10, DAY_MS)
    asked = [
        rig.operations.perform("acme", rig.saga(f"ORD-{n}"), pause(f"p{n}")) for n in range(30)
    ]
    outcomes = await asyncio.gather(*asked, return_exceptions=True)
    codes = [error.code for error in outcomes if isinstance(error, SagabusError)]
    assert codes == ["rate_limit_exceeded"] * 20
    assert await rig.count("saga where control = 'PAUSED'") == 10


async def test_the_command_sets_shows_lists_and_removes(rig: Rig, shell: Shell) -> None:
    await rig.process(rig.start_record())
    said = await shell("quotas", "set", "acme", "--running", "5", "--starts", "9", "--reason", "x")
    assert [(each["action"], each["most"], each["used"]) for each in said["limits"]] == [
        ("running", 5, 1),
        ("start", 9, 0),
    ]
    await shell("quotas", "set", "acme", "--operations", "3", "--window-s", "3600")
    await shell("pause", "ORD-1", "--reason", "x")
    said = await shell("quotas", "show", "acme")
    told = {each["action"]: (each["most"], each["window_ms"]) for each in said["limits"]}
    assert told == {"operation": (3, 3_600_000), "running": (5, None), "start": (9, 60_000)}
    await shell("quotas", "set", "zoo", "--running", "0")
    listed = await shell("quotas", "list", "--limit", "1")
    assert [each["tenant"] for each in listed["quotas"]] == ["acme"]
    assert len(listed["quotas"][0]["limits"]) == 3
    rest = await shell("quotas", "list", "--cursor", listed["next_cursor"])
    assert [each["tenant"] for each in rest["quotas"]] == ["zoo"]
    assert rest["next_cursor"] is None
    said = await shell("quotas", "remove", "acme", "running", "starts", "operations")
    assert said["limits"] == []
    assert (await shell("quotas", "set", "acme", code=2))["error"]["code"] == "usage"
    audited = await shell("audit", "list", "--where", "kind=quota:set")
    assert len(audited["rows"]) == 7
    assert audited["rows"][1]["detail"] == "at most 9 of start in 60000 ms"


async def test_limits_that_make_no_sense_are_refused(rig: Rig) -> None:
    for most, window_ms in ((-1, MINUTE), (1, 999), (1, DAY_MS + 1), (2**60, MINUTE)):
        with pytest.raises(Refused) as found:
            await rig.tenants.set_rate("acme", START, most, window_ms)
        assert found.value.code == "invalid_quota"
    assert await rig.count("action_rate") == 0
