"""`sagabus audit verify`: whoever changes history is found out, wherever they change it."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Lifecycle, OutboxRow, Topics, unpack_headers
from sagabus_orchestrator.audit.chain import Fault
from sagabus_orchestrator.audit.verify import PublishedHead, Report, Scope, Verifier
from sagabus_orchestrator.entry import NO_HEAD
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, pack, unpack
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_testkit.stack import Kafka

from .support import Rig, Shell, commands, lifecycle, pause, resume

BROKEN = 1


async def play(rig: Rig, *keys: str) -> None:
    """Run sagas to their end by way of a pause and a rejection."""
    sent = await rig.process(*(rig.start_record(key) for key in keys))
    for key in keys:
        await rig.operations.perform("acme", rig.saga(key), pause(f"p {key}"))
        await rig.operations.perform("acme", rig.saga(key), resume(f"r {key}"))
    sent += await rig.read_outbox()
    while found := commands(sent):
        sent = await rig.process(
            *(
                rig.result_record(
                    command,
                    ResultStatus.REJECTED if command.step == "ship" else ResultStatus.SUCCEEDED,
                )
                for command in found
            )
        )


def heads(events: Sequence[Lifecycle]) -> list[PublishedHead]:
    return [
        PublishedHead(
            event.saga_id,
            event.revision,
            event.journal_head,
            datetime.fromtimestamp(event.occurred_at_ms / 1000, UTC),
        )
        for event in events
        if event.revision is not None and event.journal_head is not None
    ]


async def batches(found: Sequence[PublishedHead]) -> AsyncIterator[Sequence[PublishedHead]]:
    yield found[:1]
    yield []
    yield found[1:]


async def verify(rig: Rig, scope: Scope | None = None) -> Report:
    verifier = Verifier(rig.database, scope or Scope(), lambda _: None)
    await verifier.chains()
    await verifier.published(batches(heads(lifecycle(rig.sent))))
    return verifier.report


def told(report: Report) -> list[tuple[str, Fault, int | None]]:
    return [(found.saga_id, found.fault, found.revision) for found in report.breaks]


async def archive(rig: Rig) -> None:
    await Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy()).move(0)


async def test_sound_journals_hold_hot_and_archived(rig: Rig) -> None:
    await play(rig, "A", "B")
    await archive(rig)
    await rig.process(rig.start_record("C"), rig.start_record("X", version=9))
    report = await verify(rig)
    assert (report.broken, report.sagas, report.archived) == (0, 3, 2)
    facts = await rig.value("select count(*) from journal")
    assert report.facts == facts
    assert report.compared == report.announced == len(heads(lifecycle(rig.sent)))
    assert report.not_compared == 0


async def test_what_kafka_no_longer_keeps_is_counted(rig: Rig) -> None:
    await play(rig, "A")
    published = len(heads(lifecycle(rig.sent)))
    rig.sent.clear()
    report = await verify(rig)
    assert (report.broken, report.compared, report.not_compared) == (0, 0, published)


Tamper = Callable[[Rig], Awaitable[None]]


async def flip_bytes(rig: Rig) -> None:
    await rig.run(
        "update journal set fact = convert_to(replace(convert_from(fact, 'UTF8'),"
        ' \'"actor":"ada"\', \'"actor":"eve"\'), \'UTF8\') where saga_id = $1 and revision = 2',
        rig.saga("B"),
    )


async def delete_a_fact(rig: Rig) -> None:
    await rig.run("delete from journal where saga_id = $1 and revision = 3", rig.saga("B"))


async def swap_two(rig: Rig) -> None:
    await rig.run(
        "update journal j set fact = other.fact from journal other"
        " where j.saga_id = $1 and other.saga_id = $1 and (j.revision, other.revision)"
        " in ((2, 3), (3, 2)) and j.ordinal = 0 and other.ordinal = 0",
        rig.saga("B"),
    )


async def cut_the_tail(rig: Rig) -> None:
    await rig.run("delete from journal where saga_id = $1 and revision > 4", rig.saga("B"))


async def delete_everything(rig: Rig) -> None:
    await rig.run("delete from journal where saga_id = $1", rig.saga("B"))


@pytest.mark.parametrize(
    ("tamper", "fault", "revision"),
    [
        (flip_bytes, Fault.BROKEN_LINK, 2),
        (delete_a_fact, Fault.MISSING_FACTS, 4),
        (swap_two, Fault.BROKEN_LINK, 2),
        (cut_the_tail, Fault.OTHER_END, None),
        (delete_everything, Fault.OTHER_END, None),
    ],
)
async def test_tampering_is_found_at_its_first_broken_link(
    rig: Rig, tamper: Tamper, fault: Fault, revision: int | None
) -> None:
    await play(rig, "A", "B", "C")
    await tamper(rig)
    last = await rig.value("select revision from saga where id = $1", rig.saga("B"))
    assert told(await verify(rig)) == [(rig.saga("B"), fault, revision or last)]
    scoped = await verify(rig, Scope(saga_id=rig.saga("A")))
    assert (scoped.broken, scoped.sagas) == (0, 1)


async def rewrite(rig: Rig, key: str) -> int:
    """Change one fact and everything that follows from it, as one who owns the database can."""
    head, changed = NO_HEAD, 0
    async with rig.database.transaction() as conn:
        rows = await conn.fetch(
            "select * from journal where saga_id = $1 order by revision, ordinal", rig.saga(key)
        )
        for row in rows:
            fact = bytes(row["fact"]).replace(b'"actor":"ada"', b'"actor":"eve"')
            if fact != row["fact"] and not changed:
                changed = row["revision"]
            head = hashlib.sha256(head + fact).digest()
            await conn.execute(
                "update journal set fact = $2, head = $3 where seq = $1", row["seq"], fact, head
            )
        await conn.execute("update saga set journal_head = $2 where id = $1", rig.saga(key), head)
    return changed


async def test_a_chain_that_was_rewritten_as_a_whole_differs_from_what_was_published(
    rig: Rig,
) -> None:
    await play(rig, "A", "B")
    changed = await rewrite(rig, "B")
    offline = Verifier(rig.database, Scope(), lambda _: None)
    await offline.chains()
    assert offline.report.broken == 0, "by itself it is sound"
    ((saga, fault, revision),) = told(await verify(rig))
    assert (saga, fault) == (rig.saga("B"), Fault.OTHER_THAN_PUBLISHED)
    assert revision is not None
    assert revision > changed


async def test_a_saga_set_back_to_an_earlier_revision_is_found(rig: Rig) -> None:
    """Journal cut and snapshot rewound together: sound by itself, but more was published."""
    await play(rig, "A")
    await cut_tail_and_rewind(rig, "A", 2)
    ((saga, fault, revision),) = told(await verify(rig))
    assert (saga, fault) == (rig.saga("A"), Fault.OTHER_THAN_PUBLISHED)
    assert revision is not None
    assert revision > 2


async def cut_tail_and_rewind(rig: Rig, key: str, revision: int) -> None:
    await rig.run(
        "delete from journal where saga_id = $1 and revision > $2", rig.saga(key), revision
    )
    await rig.run(
        "update saga set revision = $2, journal_head = (select head from journal where"
        " saga_id = $1 order by revision desc, ordinal desc limit 1) where id = $1",
        rig.saga(key),
        revision,
    )


async def test_a_saga_that_vanished_is_found(rig: Rig) -> None:
    await rig.process(rig.start_record("A"))
    await play(rig, "B")
    await rig.run("delete from saga where id = $1", rig.saga("A"))
    assert told(await verify(rig)) == [(rig.saga("A"), Fault.SAGA_MISSING, None)]
    await rig.run("delete from saga_key where id = $1", rig.saga("A"))
    assert told(await verify(rig)) == [(rig.saga("A"), Fault.SAGA_MISSING, 1)]


async def test_ended_sagas_that_were_deleted_from_the_archive_are_counted(rig: Rig) -> None:
    await play(rig, "A")
    await archive(rig)
    await rig.run("delete from archived_saga")
    report = await verify(rig)
    assert (report.broken, report.deleted, report.compared) == (0, 1, 0)


async def test_the_archive_is_proved_too(rig: Rig) -> None:
    await play(rig, "A")
    await archive(rig)
    raw = await rig.value("select body from archived_saga")
    assert isinstance(raw, bytes)
    body = unpack(raw)
    wrong = body.facts[3]
    forged = ArchivedFact(
        wrong.revision, wrong.ordinal, wrong.fact + b" ", wrong.head, wrong.recorded_at
    )
    facts = (*body.facts[:3], forged, *body.facts[4:])
    await rig.run("update archived_saga set body = $1", pack(Body(body.snapshot, facts)))
    assert told(await verify(rig)) == [(rig.saga("A"), Fault.BROKEN_LINK, wrong.revision)]
    await rig.run("update archived_saga set body = $1", raw)
    await rig.run("update journal set fact = fact || '\\x20'::bytea where ordinal = 0")
    assert told(await verify(rig)) == [(rig.saga("A"), Fault.ARCHIVE_DIFFERS, 1)]


async def test_many_sagas_are_proved_page_by_page(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"M-{n}") for n in range(120)))
    pages: list[int] = []
    verifier = Verifier(rig.database, Scope(), lambda report: pages.append(report.sagas))
    await verifier.chains()
    assert pages == [50, 100, 120]
    later = Scope(since=datetime.now(UTC) + timedelta(hours=1))
    report = await verify(rig, later)
    assert (report.sagas, report.compared) == (0, 0)


async def test_the_command_compares_with_kafka(
    rig: Rig, shell: Shell, kafka: Kafka, topic_prefix: str
) -> None:
    topics = Topics(f"{topic_prefix}.")
    bus = ("--kafka", kafka.bootstrap, "--topic-prefix", f"{topic_prefix}.")
    await play(rig, "A", "B")
    connection = KafkaConnection(kafka.bootstrap, "test")
    async with TopicAdmin(connection) as admin:
        await admin.ensure(topics.catalogue([], 2))
    await publish(rig, connection, topics)

    async def said(*words: str, code: int = 0) -> dict[str, Any]:
        return await shell("audit", "verify", *words, *bus, code=code)

    sound = await said("--all")
    published = len(heads(lifecycle(rig.sent)))
    assert (sound["broken"], sound["compared"], sound["not_compared"]) == (0, published, 0)
    await rewrite(rig, "B")
    broken = await said("--all", code=BROKEN)
    assert [found["fault"] for found in broken["breaks"]] == ["other_than_published"]
    assert (await said("A"))["broken"] == 0
    assert (await said("B", "--offline"))["compared"] == 0
    assert (await said("B", code=BROKEN))["broken"] == 1
    assert (await said(code=2))["error"]["code"] == "usage"


async def publish(rig: Rig, connection: KafkaConnection, topics: Topics) -> None:
    """Do the relay's work for lifecycle events."""
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select * from outbox where topic like '%lifecycle%' order by id")
    publisher = Publisher(connection)
    await publisher.publish(
        [
            OutboxRow(topics.lifecycle, row["key"], unpack_headers(row["headers"]), row["value"])
            for row in rows
        ]
    )
    await publisher.close()
