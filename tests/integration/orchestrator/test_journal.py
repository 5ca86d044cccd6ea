"""The journal: append-only, chained, with facts for every revision."""

import hashlib

import pytest

from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Lifecycle
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.entry import NO_HEAD
from sagabus_store import StoreUnavailable
from sagabus_store.roles import grant

from .support import Rig, commands, lifecycle, pause, resume


async def story(rig: Rig) -> list[Lifecycle]:
    sent = await rig.process(rig.start_record())
    events = lifecycle(sent)
    (command,) = commands(sent)
    await rig.operations.perform("acme", command.saga_id, pause("p"))
    await rig.process(rig.result_record(command))
    await rig.operations.perform("acme", command.saga_id, resume("r"))
    sent = await rig.read_outbox()
    events += lifecycle(sent)
    sent = await rig.process(rig.result_record(commands(sent)[0], ResultStatus.REJECTED))
    events += lifecycle(sent)
    sent = await rig.process(rig.result_record(commands(sent)[0]))
    return events + lifecycle(sent)


async def test_the_chain_of_heads_recomputes_and_ends_in_the_saga(rig: Rig) -> None:
    events = await story(rig)
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select * from journal order by revision, ordinal")
        saga = await conn.fetchrow("select * from saga")
        by_seq = await conn.fetch("select seq from journal order by revision, ordinal")
    head = NO_HEAD
    heads = {}
    for row in rows:
        head = hashlib.sha256(head + row["fact"]).digest()
        assert row["head"] == head
        heads[row["revision"]] = head.hex()
    assert saga is not None
    assert saga["journal_head"] == head
    assert [row["seq"] for row in by_seq] == sorted(row["seq"] for row in by_seq)
    for event in events:
        assert event.revision is not None
        assert event.journal_head == heads[event.revision]


async def test_every_revision_has_facts_numbered_without_gaps(rig: Rig) -> None:
    await story(rig)
    revision = await rig.value("select revision from saga")
    assert isinstance(revision, int)
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select revision, ordinal from journal order by 1, 2")
    assert {row["revision"] for row in rows} == set(range(1, revision + 1))
    for number in range(1, revision + 1):
        ordinals = [row["ordinal"] for row in rows if row["revision"] == number]
        assert ordinals == list(range(ordinals[0], ordinals[0] + len(ordinals)))


@pytest.mark.parametrize("statement", ["update journal set ordinal = 9", "delete from journal"])
async def test_the_role_of_the_process_cannot_change_the_journal(rig: Rig, statement: str) -> None:
    await story(rig)
    with pytest.raises(StoreUnavailable, match="permission denied"):
        async with rig.database.transaction() as conn:
            await conn.execute("create role app_of_test")
            await grant(conn, COMPONENTS, profile="app", role="app_of_test")
            await conn.execute("set local role app_of_test")
            await conn.execute(statement)
