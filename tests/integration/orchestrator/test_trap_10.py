"""Trap 10: an instance whose timer row or armed time is lost stands still, and nobody notices.

Sagas are broken by hand in every way; the reconciler (and before it the sweep) finds each one,
repairs it, and says so.
"""

import asyncio
import json
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.canonical import JsonValue
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import WakeupRequest
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.proof import Fault
from sagabus_orchestrator.upkeep.reconciler import Reconciler, ReconcilerPolicy

from .support import Rig, commands, open_rig, order, pause

POLICY = ReconcilerPolicy(page=3, tick_ms=0, round_ms=0, quiet_ms=0)
Harm = Callable[[Rig], object]


def reconciler(rig: Rig, registry: CollectorRegistry | None = None) -> Reconciler:
    events = UpkeepEvents(registry or CollectorRegistry())
    return Reconciler(rig.database, rig.handler, events, POLICY)


async def round_of(rig: Rig, reconciling: Reconciler | None = None) -> dict[str, int]:
    """Look at every page once; returns the report of the round."""
    reconciling = reconciling or reconciler(rig)
    await rig.run("update upkeep_job set report = null")
    while await reconciling.tick():
        report = await rig.value("select report from upkeep_job where name = 'reconciler'")
        if report is not None:
            found: dict[str, int] = json.loads(str(report))
            return found
    raise AssertionError("somebody else holds the lease")


async def findings(rig: Rig) -> list[tuple[str, bool]]:
    async with rig.database.connection() as conn:
        rows = await conn.fetch(
            "select fault, repaired_at is not null as repaired from reconciler_finding order by 1"
        )
    return [(row["fault"], row["repaired"]) for row in rows]


async def edit_snapshot(rig: Rig, **changes: JsonValue) -> None:
    """Change the stored snapshot; `act_` changes the one open activation."""
    snapshot = await rig.snapshot("ORD-1")
    act = snapshot["acts"][0][1]  # type: ignore[index]  # the JSON of a snapshot
    for name, value in changes.items():
        part = act if name.startswith("act_") else snapshot
        part[name.removeprefix("act_")] = value  # type: ignore[index]  # as above
    await rig.restore_snapshot("ORD-1", json.dumps(snapshot).encode())


async def clear_armed_column(rig: Rig) -> None:
    await rig.run("update saga set armed_at_ms = null")


async def clear_armed_time(rig: Rig) -> None:
    await clear_armed_column(rig)
    await edit_snapshot(rig, armed=None)


async def arm_far_too_late(rig: Rig) -> None:
    late = rig.now_ms() + 86_400_000
    await edit_snapshot(rig, armed=late)
    await rig.run("update saga set armed_at_ms = $1", late)


async def forget_the_deadline(rig: Rig) -> None:
    await edit_snapshot(rig, act_d=None)


async def forget_the_step(rig: Rig) -> None:
    await edit_snapshot(rig, acts=[])


async def hide_in_the_future(rig: Rig) -> None:
    await rig.run("update saga set armed_at_ms = armed_at_ms + 86400000, control = 'PAUSED'")


async def forget_both_wakeups(rig: Rig) -> None:
    """The timer row is gone, and the sweep has not run for longer than a minute."""
    past = rig.now_ms() - 120_000
    await edit_snapshot(rig, armed=past, act_d=past)
    await rig.run("update saga set armed_at_ms = $1", past)


HARMS: list[tuple[Harm, Fault]] = [
    (clear_armed_column, Fault.COLUMNS_DIFFER),
    (hide_in_the_future, Fault.COLUMNS_DIFFER),
    (clear_armed_time, Fault.NOT_ARMED),
    (arm_far_too_late, Fault.ARMED_TOO_LATE),
    (forget_the_deadline, Fault.NO_DEADLINE),
    (forget_the_step, Fault.NOTHING_OPEN),
    (forget_both_wakeups, Fault.OVERDUE),
]


@pytest.mark.parametrize(("harm", "fault"), HARMS, ids=[harm.__name__ for harm, _ in HARMS])
async def test_trap_10_every_broken_obligation_is_found_repaired_and_told(
    rig: Rig, harm: Callable[[Rig], "asyncio.Future[None]"], fault: Fault
) -> None:
    registry = CollectorRegistry()
    reconciling = reconciler(rig, registry)
    await rig.process(rig.start_record())
    assert (await round_of(rig, reconciling))["findings"] == 0

    await harm(rig)
    assert (await round_of(rig, reconciling))["findings"] == 1
    assert await findings(rig) == [(fault, True)]
    labels = {"fault": fault.value, "outcome": "repaired"}
    assert registry.get_sample_value("sagabus_reconciler_findings_total", labels) == 1

    saga = await rig.snapshot("ORD-1")
    row = await rig.value(
        "select (status, control, revision, armed_at_ms)::text from saga where id = $1",
        rig.saga("ORD-1"),
    )
    assert row == f"({saga['status']},{saga['control']},{saga['rev']},{saga['armed']})"
    assert saga["armed"] is not None
    assert (await round_of(rig, reconciling))["findings"] == 0
    await finish(rig)


async def finish(rig: Rig) -> None:
    """Time runs on without any wake-up from the timer, answers come: the saga ends all the same."""
    status = None
    for _ in range(40):
        sent = [c for c in commands(rig.sent) if c.phase is not Phase.CANCEL]
        await rig.process(*(rig.result_record(command) for command in sent))
        await rig.sweeper.sweep()
        status = await rig.value("select status from saga")
        if status == "COMPLETED":
            return
        await rig.read_outbox()
    raise AssertionError(f"the saga is still {status}")


async def test_trap_10_a_wake_up_lost_at_the_timer_and_a_lost_command_are_overtaken_by_the_sweep(
    rig: Rig,
) -> None:
    quick = order(2)
    quick["steps"]["reserve"]["execute"]["timeout_ms"] = 1  # type: ignore[index,call-overload]  # JSON
    await rig.publish(quick)
    sent = await rig.process(rig.start_record())
    (armed,) = [message for message in sent if isinstance(message, WakeupRequest)]
    await rig.run("delete from outbox")  # neither the command nor the wake-up was ever sent
    await rig.until(armed.at_ms or 0)
    assert await rig.sweeper.sweep() == 1
    (again,) = commands(await rig.read_outbox())
    assert (again.step, again.phase) == ("reserve", Phase.CANCEL)
    assert await findings(rig) == []


async def test_trap_10_lawful_waits_are_counted_apart(rig: Rig) -> None:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(8)))
    for name in ("ORD-1", "ORD-2"):
        await rig.operations.perform("acme", rig.saga(name), pause(f"pause {name}"))
    halted = next(c for c in commands(sent) if c.business_key == "ORD-3")
    await rig.process(rig.result_record(halted, ResultStatus.HALTED))
    registry = CollectorRegistry()
    report = await round_of(rig, reconciler(rig, registry))
    assert {name: report[name] for name in ("machine", "paused", "manual", "findings")} == {
        "machine": 5,
        "paused": 2,
        "manual": 1,
        "findings": 0,
    }
    gauge = "sagabus_reconciler_waiting"
    assert registry.get_sample_value(gauge, {"waiting_for": "paused"}) == 2


async def test_trap_10_what_cannot_be_repaired_stays_open_until_it_is_gone(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(4)))
    before = await rig.break_snapshot("ORD-2")
    await rig.run("update saga set armed_at_ms = null where id = $1", rig.saga("ORD-1"))
    assert (await round_of(rig))["findings"] == 2
    assert await findings(rig) == [("columns_differ", True), ("unreadable", False)]
    await round_of(rig)
    assert await rig.value("select max(times) from reconciler_finding") == 2
    await rig.restore_snapshot("ORD-2", before)
    assert (await round_of(rig))["findings"] == 0
    assert await findings(rig) == [("columns_differ", True), ("unreadable", True)]


async def test_trap_10_two_replicas_share_the_work_and_never_do_a_page_twice(
    rig: Rig, prepared: str
) -> None:
    other = await open_rig(prepared)
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(7)))
    await rig.run("update saga set armed_at_ms = null")
    replicas = [reconciler(rig), reconciler(other)]
    while await rig.value("select report is null from upkeep_job where name = 'reconciler'"):
        turns = await asyncio.gather(*(replica.tick() for replica in replicas))
        assert any(turns)
    assert await rig.value("select max(times) from reconciler_finding") == 1
    assert await rig.value("select count(*) from reconciler_finding") == 7
    await rig.run("update upkeep_job set due_at = now() + interval '1 minute'")
    assert not await reconciler(rig).tick()
    await other.database.close()


async def test_trap_10_the_pages_come_from_the_index(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(8)))
    # Of few rows any plan is cheap: as everywhere, most have ended.
    await rig.run(
        "insert into saga select (jsonb_populate_record(one, jsonb_build_object("
        "  'id', gen_random_uuid(), 'status', 'COMPLETED', 'armed_at_ms', null))).*"
        " from saga one, generate_series(1, 5000) where business_key = 'ORD-0'"
    )
    await rig.run("reindex table saga")  # empty pages that earlier tests left would count
    await rig.run("vacuum analyze saga")
    async with rig.database.connection() as conn:
        plan = await conn.fetch(
            "explain select id, status, control, armed_at_ms from saga where status not in"
            " ('COMPLETED', 'COMPENSATED', 'MANUALLY_CLOSED') and id > $1 order by id limit 5",
            "00000000-0000-0000-0000-000000000000",
        )
    assert any("Index Only Scan using saga_unfinished" in row[0] for row in plan), [
        row[0] for row in plan
    ]
