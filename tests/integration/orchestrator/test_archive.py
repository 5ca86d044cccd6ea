"""Ended sagas leave the hot tables and stay readable, refusing and able to take a late answer."""

import asyncio
import hashlib
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.engine import MetricName, Operation, Pause, Resume
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Command, Lifecycle
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy, drop_journal
from sagabus_orchestrator.upkeep.body import unpack
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_store import Database, DatabaseOptions, StoreRejected
from sagabus_store.roles import ensure_login_role, grant

from .support import Rig, commands, lifecycle, open_rig

Shell = Callable[..., Awaitable[dict[str, Any]]]


def archive(rig: Rig, batch: int = 100) -> Archive:
    return Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy(30, batch, 0))


async def end(rig: Rig, *keys: str) -> list[Command]:
    """Let sagas run to COMPLETED; returns every command that was answered."""
    sent = await rig.process(*(rig.start_record(key) for key in keys))
    answered: list[Command] = []
    while found := commands(sent):
        answered += found
        sent = await rig.process(*(rig.result_record(command) for command in found))
    return answered


async def age(rig: Rig, *keys: str, days: int = 31) -> None:
    ids = [rig.saga(key) for key in keys]
    await rig.run(
        "update saga set updated_at = updated_at - $2::interval,"
        " ended_at = ended_at - $2::interval where id = any($1::uuid[])",
        ids,
        timedelta(days=days),
    )


async def test_what_ended_long_ago_is_moved_in_batches_and_stays_readable(
    rig: Rig, shell: Shell
) -> None:
    keys = [f"ORD-{n}" for n in range(5)]
    await end(rig, *keys)
    await rig.process(rig.start_record("RUNNING"))
    await age(rig, *keys[:4], "RUNNING")
    before = await shell("show", "ORD-0")

    assert [await archive(rig, 3).move(30) for _ in range(3)] == [3, 1, 0]
    assert await rig.count("saga") == 2
    assert await rig.count("archived_saga") == 4
    after = await shell("show", "ORD-0")
    assert {**after, "archived_at": None} == before
    assert after["archived_at"] is not None
    assert (await shell("why", rig.saga("ORD-0")))["waits_for"] == "nothing"
    await shell("pause", "ORD-0", "--reason", "x", code=4)


async def test_an_operation_is_answered_again_once_its_saga_is_archived(rig: Rig) -> None:
    sent = await rig.process(rig.start_record("ORD-1"))
    held = Pause(Operation("op-1", "alice", "a ticket"))
    saga = rig.saga("ORD-1")
    first = await rig.operations.perform("acme", saga, held)
    await rig.operations.perform("acme", saga, Resume(Operation("op-2", "alice", "mended")))
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    await age(rig, "ORD-1")
    assert await archive(rig).move(30) == 1

    assert await rig.operations.perform("acme", saga, held) == replace(first, repeated=True)
    with pytest.raises(Refused) as reused:
        await rig.operations.perform("acme", saga, Resume(held.operation))
    assert reused.value.code == "operation_id_reused"
    fresh = Pause(Operation("op-3", "alice", "a ticket"))
    for ask in (rig.operations.perform, rig.operations.dry_run):
        with pytest.raises(Refused) as ended:
            await ask("acme", saga, fresh)
        assert ended.value.code == "precondition_failed"
    with pytest.raises(NotFound):
        await rig.operations.perform("globex", saga, fresh)


async def test_pages_of_a_list_go_on_into_the_archive_while_it_grows(
    rig: Rig, shell: Shell
) -> None:
    keys = [f"ORD-{n}" for n in range(7)]
    for key in keys:
        await end(rig, key)
    await age(rig, *keys[:3])
    await archive(rig).move(30)
    listed = await shell("list")
    assert [saga["business_key"] for saga in listed["sagas"]] == keys[:2:-1]

    found: list[tuple[str, bool]] = []
    cursor: tuple[str, ...] = ()
    for moved in ("ORD-4", "ORD-6", "ORD-3", None):
        page = await shell("list", "--archived", "--limit", "2", *cursor)
        found += [(s["business_key"], s["archived_at"] is not None) for s in page["sagas"]]
        if moved:  # what was seen and what was not goes to the archive between two pages
            await age(rig, moved)
            await archive(rig).move(30)
            cursor = ("--cursor", page["next_cursor"])
    assert [key for key, _ in found] == keys[::-1]
    assert [archived for _, archived in found] == [False, False, True, False, True, True, True]
    only = await shell("list", "--archived", "--key", "ORD-1", "--status", "COMPLETED")
    assert [saga["business_key"] for saga in only["sagas"]] == ["ORD-1"]


async def test_what_ended_before_its_end_was_noted_is_archived_too(rig: Rig) -> None:
    await end(rig, "ORD-1", "ORD-2")
    await age(rig, "ORD-1", "ORD-2")
    await rig.run("update saga set ended_at = null, created_at = updated_at")
    await rig.run("update saga set updated_at = clock_timestamp() where id = $1", rig.saga("ORD-2"))
    assert await archive(rig).move(30) == 1
    assert await rig.count("saga") == 1


@pytest.mark.parametrize("closed", [True, False])
async def test_the_key_of_an_archived_saga_never_starts_again(rig: Rig, closed: bool) -> None:
    await end(rig, "ORD-1")
    await age(rig, "ORD-1")
    await archive(rig).move(30)
    assert await rig.count("saga_key where final_status = 'COMPLETED'") == 1
    if not closed:  # as a replica of before would leave what a newer one has ended
        await rig.run("update saga_key set final_status = null")
    (again,) = await rig.process(rig.start_record("ORD-1"))
    assert isinstance(again, Lifecycle)
    assert (again.status, again.revision) == ("COMPLETED", None)
    (other,) = await rig.process(rig.start_record("ORD-1", payload={"sku": "other"}))
    assert isinstance(other, Lifecycle)
    assert (other.status, other.reason_code) == ("START_REFUSED", "request_conflict")
    assert await rig.count("saga") == 0


async def test_late_results_are_recorded_in_the_archive(rig: Rig) -> None:
    answered = await end(rig, "ORD-1", "ORD-2")
    await age(rig, "ORD-1")
    await archive(rig).move(30)
    charge = next(c for c in answered if (c.business_key, c.step) == ("ORD-1", "charge"))
    facts = await archived_facts(rig)

    sent = await rig.process(
        rig.result_record(charge, ResultStatus.REJECTED, ordinal=2),
        rig.start_record("ORD-1"),
        rig.result_record(charge, ordinal=3),
    )
    assert [event.status for event in lifecycle(sent)] == ["COMPLETED"]
    grown = await archived_facts(rig)
    assert len(grown) > len(facts)
    assert grown[: len(facts)] == facts
    assert conflicts(rig) == 1
    assert await rig.dead_letters() == []
    await chain_holds(rig)

    again = rig.result_record(charge, ResultStatus.REJECTED, ordinal=2)
    await rig.process(again)
    assert await archived_facts(rig) == grown
    stranger = next(c for c in answered if c.business_key == "ORD-2")
    await rig.run("delete from saga")
    await rig.process(rig.result_record(stranger, ordinal=7))
    assert await rig.dead_letters() == ["unknown_saga"]


def conflicts(rig: Rig) -> float:
    samples = [s for m in rig.handler._events._signals.collect() for s in m.samples]
    return sum(
        s.value
        for s in samples
        if s.name.endswith("_total") and s.labels["signal"] == MetricName.CONFLICT
    )


async def archived_facts(rig: Rig) -> list[bytes]:
    body = await rig.value("select body from archived_saga")
    assert isinstance(body, bytes)
    return [fact.fact for fact in unpack(body).facts]


async def chain_holds(rig: Rig) -> None:
    body = await rig.value("select body from archived_saga")
    assert isinstance(body, bytes)
    head = bytes(32)
    for fact in unpack(body).facts:
        head = hashlib.sha256(head + fact.fact).digest()
        assert head == fact.head
    assert head == await rig.value("select journal_head from archived_saga")


async def test_two_replicas_move_each_saga_once(rig: Rig, prepared: str) -> None:
    other = await open_rig(prepared)
    keys = [f"ORD-{n}" for n in range(12)]
    await end(rig, *keys)
    await age(rig, *keys)
    movers = [archive(rig, 2), archive(other, 2)] * 4
    assert sum(await asyncio.gather(*(mover.move(30) for mover in movers))) == 12
    assert await rig.count("archived_saga") == 12
    first, second = archive(rig), archive(other)
    await asyncio.gather(first.tick(), second.tick())
    assert await rig.value("select sum(turn) from upkeep_job where name = 'archive'") in {1, 2}
    await other.database.close()


async def test_months_of_the_journal_go_once_their_sagas_are_archived(
    rig: Rig, prepared: str, shell: Shell
) -> None:
    await end(rig, "OLD")
    sent = await rig.process(rig.start_record("RUNNING"))
    await age(rig, "OLD", days=100)
    await rig.run("select journal_create_partitions(current_date - 100, current_date - 100)")
    await rig.run("update journal set recorded_at = recorded_at - interval '100 days'")
    before = await shell("show", "RUNNING")
    await archive(rig).move(30)

    role = f"keeper_{secrets.token_hex(4)}"
    owner = await asyncpg.connect(prepared)
    await ensure_login_role(owner, role, "secret")
    await grant(owner, COMPONENTS, profile="maintenance", role=role)
    place = urlsplit(prepared).netloc.rpartition("@")[2]
    dsn = urlsplit(prepared)._replace(netloc=f"{role}:secret@{place}").geturl()
    keeper = Database(dsn, DatabaseOptions(application_name="test", pool_size=1))
    await keeper.open()
    with pytest.raises(StoreRejected, match="not archived"):
        await drop_journal(keeper, 2, 0)
    (dropped,) = await drop_journal(keeper, 2, 1_000)
    assert dropped.copied == len(before["journal"])
    assert await drop_journal(keeper, 2, 1_000) == []
    await keeper.close()
    await owner.execute(f"drop owned by {role}; drop role {role}")
    await owner.close()

    assert (await shell("show", "RUNNING"))["journal"] == before["journal"]
    assert (await shell("show", "OLD"))["status"] == "COMPLETED"
    assert await rig.value("select count(distinct saga_id) from journal") == 1
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    assert lifecycle(rig.sent)[-1].status == "COMPLETED"


async def test_the_process_itself_may_not_drop_its_journal(rig: Rig, prepared: str) -> None:
    role = f"app_{secrets.token_hex(4)}"
    owner = await asyncpg.connect(prepared)
    await owner.execute(f"create role {role}")
    await grant(owner, COMPONENTS, profile="app", role=role)
    await owner.execute(f"set role {role}")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await owner.fetch("select * from journal_drop_partition_before(current_date, 0)")
    await owner.execute(f"reset role; drop owned by {role}; drop role {role}")
    await owner.close()
    del rig
