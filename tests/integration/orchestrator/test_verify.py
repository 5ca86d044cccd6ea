"""`sagabus audit verify`: whoever changes history is found out, wherever they change it.

The attacker owns the database and may write every table; Kafka is out of their reach.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import Excerpt, KafkaConnection, Publisher, TopicAdmin, partition_of
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import OutboxRow, Record, Topics, pack_headers, unpack_headers
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.audit.findings import Fault, Report, Scope
from sagabus_orchestrator.audit.horizon import Horizon, held_gauge
from sagabus_orchestrator.audit.published import hear, hear_outbox
from sagabus_orchestrator.audit.seal import Sealer
from sagabus_orchestrator.audit.trail import SQL as SEALS
from sagabus_orchestrator.audit.unsealing import prove_seals
from sagabus_orchestrator.audit.verify import Verifier
from sagabus_orchestrator.audit.witness import Witness
from sagabus_orchestrator.entry import NO_HEAD
from sagabus_orchestrator.releaser import Releaser
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, pack, unpack
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_testkit import eventually
from sagabus_testkit.stack import Kafka

from .support import TOPICS, Rig, Shell, commands, pause, resume
from .tampering import TAMPERING

BROKEN = 1
HOUR_MS: Final = 3_600_000
TABLES = ("saga", "saga_key", "journal", "archived_saga", "audit", "audit_seal")


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


async def relay(rig: Rig) -> list[Record]:
    """Publish what waits in the outbox: return the lifecycle topic as it is then."""
    async with rig.database.transaction() as conn:
        rows = await conn.fetch(
            "select key, headers, value from outbox where topic = $1 order by id", TOPICS.lifecycle
        )
        await conn.execute("delete from outbox where topic = $1", TOPICS.lifecycle)
    now = rig.now_ms()
    return [
        Record(
            TOPICS.lifecycle, 0, n, row["key"], row["value"], unpack_headers(row["headers"]), now
        )
        for n, row in enumerate(rows)
    ]


async def verify(
    rig: Rig, topic: Sequence[Record], scope: Scope | None = None, *, later_ms: int = 0
) -> Report:
    """Prove against a topic; `later_ms`: as if the outbox was looked at later."""
    meant = scope or Scope()
    with Witness(rig.now_ms() + later_ms) as witness:
        await hear_outbox(rig.database, TOPICS, meant, witness)
        hear(topic[:1], TOPICS, meant, witness)
        hear(topic[1:], TOPICS, meant, witness)
        return await Verifier(rig.database, meant, lambda _: None, witness).prove()


async def offline(rig: Rig) -> Report:
    return await Verifier(rig.database, Scope(), lambda _: None).prove()


def told(report: Report) -> list[tuple[str | None, Fault, int | None]]:
    return [(found.saga_id, found.fault, found.revision) for found in report.breaks]


def faults(report: Report) -> set[tuple[str | None, Fault]]:
    return {(found.saga_id, found.fault) for found in report.breaks}


async def archive(rig: Rig) -> None:
    await Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy()).move(0)


async def save(rig: Rig) -> None:
    """Keep the tables as they are now, for `restore`."""
    for table in TABLES:
        await rig.run(f"drop table if exists saved_{table}")
        await rig.run(f"create table saved_{table} as table {table}")


async def restore(rig: Rig) -> None:
    for table in TABLES:
        await rig.run(f"delete from {table}")
        await rig.run(f"insert into {table} overriding system value table saved_{table}")


async def test_sound_journals_hold_hot_and_archived(rig: Rig) -> None:
    await play(rig, "A", "B")
    await archive(rig)
    await rig.process(rig.start_record("C"), rig.start_record("X", version=9))
    waiting = await verify(rig, [])
    topic = await relay(rig)
    # At least once: what is there twice is compared once.
    report = await verify(rig, topic * 3)
    assert (report.breaks, report.sagas, report.archived) == ([], 3, 2)
    assert report.facts == await rig.value("select count(*) from journal")
    assert (waiting.compared, waiting.waiting) == (0, report.compared)
    assert report.compared == len(topic) - 1, "all but the refusal of X"
    assert (report.waiting, report.not_compared) == (0, 0)
    # Without A's first event, which Kafka no longer keeps, the repeats of others do not cover it.
    kept = [record for record in topic if record.key != rig.saga("A").encode()] * 2
    report = await verify(rig, kept)
    assert (report.broken, report.not_compared) == (0, len(topic) - 1 - report.compared)
    assert report.not_compared > 0


@pytest.mark.parametrize("taken_over", [False, True])
async def test_what_holds_paused_and_let_go_is_sound(rig: Rig, *, taken_over: bool) -> None:
    """A hold pauses in its own name: its row in the audit answers for all of its sagas.

    An operator who takes such a pause over changes nothing in the saga.
    """
    (command,) = commands(await rig.process(rig.start_record("A")))
    board, by = Switchboard(rig.database), By("ada", "a flood")
    await board.set("workflow", "order", by)
    await rig.process(rig.result_record(command))
    if taken_over:
        await rig.operations.perform("acme", command.saga_id, pause("p"))
    await board.release("workflow", "order", by)
    await Releaser(rig.database, rig.operations).tick()
    if taken_over:
        assert await rig.count("audit where kind = 'pause:take-over' and outcome = 'done'") == 1
        await rig.operations.perform("acme", command.saga_id, resume("r"))
    assert [fact["to"] for fact in await rig.facts("A") if fact["kind"] == "control"] == [
        "PAUSED",
        "ACTIVE",
    ]
    assert (await verify(rig, await relay(rig))).breaks == []


async def test_tampering_is_found_by_itself_at_its_first_place(rig: Rig) -> None:
    """Without Kafka: the tables contradict each other."""
    await play(rig, "A", "B", "C")
    await save(rig)
    found: dict[str, set[tuple[str | None, Fault]]] = {}
    for name, (_, statement) in TAMPERING.items():
        await rig.run(statement)
        found[name] = faults(await offline(rig))
        await restore(rig)
    both = {(rig.saga(key), Fault.OTHER_END) for key in ("A", "B")}
    expected = {name: {(rig.saga("B"), fault)} for name, (fault, _) in TAMPERING.items()}
    assert found == {**expected, "journals of two sagas swapped": both}
    assert (await offline(rig)).breaks == []


async def test_the_first_broken_link_is_named(rig: Rig) -> None:
    await play(rig, "A", "B")
    topic = await relay(rig)
    await rig.run(TAMPERING["bytes of a fact"][1])
    assert told(await verify(rig, topic)) == [(rig.saga("B"), Fault.BROKEN_LINK, 2)]
    scoped = await verify(rig, topic, Scope(saga_id=rig.saga("A")))
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
        await conn.execute("update audit set actor = 'eve' where saga_id = $1", rig.saga(key))
    return changed


async def test_a_chain_that_was_rewritten_as_a_whole_differs_from_what_was_published(
    rig: Rig,
) -> None:
    await play(rig, "A", "B")
    topic = await relay(rig)
    changed = await rewrite(rig, "B")
    assert (await offline(rig)).breaks == [], "by itself it is sound"
    ((saga, fault, revision),) = told(await verify(rig, topic))
    assert (saga, fault) == (rig.saga("B"), Fault.OTHER_THAN_PUBLISHED)
    assert revision is not None
    assert revision > changed


async def test_journals_swapped_with_everything_beside_them_differ_from_what_was_published(
    rig: Rig,
) -> None:
    """The facts of one saga name no other: with rows and audit swapped too they are sound."""
    await rig.process(rig.start_record("A"))
    await rig.process(rig.start_record("B"))
    topic = await relay(rig)
    await rig.run(TAMPERING["journals of two sagas swapped"][1])
    await rig.run(
        "update saga s set journal_head = o.journal_head, created_at = o.created_at,"
        " updated_at = o.updated_at from saga o where s.id <> o.id"
    )
    await rig.run(
        "update saga s set armed_at_ms = (convert_from(snapshot,'UTF8')::json->>'armed')::bigint"
    )
    assert (await offline(rig)).breaks == []
    swapped = {(rig.saga(key), Fault.OTHER_THAN_PUBLISHED) for key in ("A", "B")}
    assert faults(await verify(rig, topic)) == swapped


async def test_a_saga_set_back_to_an_earlier_revision_is_found(rig: Rig) -> None:
    """Journal cut and row rewound together: but more was published."""
    await play(rig, "A")
    topic = await relay(rig)
    await rig.run("delete from journal where revision > 2")
    await rig.run(
        "update saga set revision = 2, journal_head = (select head from journal"
        " order by revision desc, ordinal desc limit 1)"
    )
    ((saga, fault, revision),) = told(await verify(rig, topic))
    assert (saga, fault) == (rig.saga("A"), Fault.OTHER_THAN_PUBLISHED)
    assert revision is not None
    assert revision > 2


async def test_an_event_that_was_kept_from_kafka_is_missed(rig: Rig) -> None:
    await rig.process(rig.start_record("OLD"))
    await play(rig, "A")
    topic = await relay(rig)
    key = rig.saga("A").encode()
    first, *others = [record for record in topic if record.key == key]
    oldest = replace(topic[0], timestamp_ms=rig.now_ms() - HOUR_MS)
    left = [oldest, *others]
    now = await verify(rig, left)
    assert (now.broken, now.not_compared) == (0, 1), "what is new may be on its way"
    assert told(await verify(rig, left, later_ms=HOUR_MS)) == [
        (rig.saga("A"), Fault.NOT_PUBLISHED, 1)
    ]
    # What stands before the oldest record that is kept was removed by its age.
    gone = [replace(oldest, timestamp_ms=rig.now_ms() + HOUR_MS), *others]
    assert (await verify(rig, gone, later_ms=2 * HOUR_MS)).broken == 0
    # What an operator has discarded was not kept from anybody in secret.
    await rig.run(
        "insert into outbox_operation (operation_id, topic, key, kind, actor, reason, put_back,"
        " head_id, headers, value, code, detail)"
        " values ('d', $1, $2, 'discard', 'ada', 'r', 0, 1, $3, $4, '', '')",
        TOPICS.lifecycle,
        first.key,
        pack_headers(first.headers),
        first.value,
    )
    told_of = await verify(rig, left, later_ms=HOUR_MS)
    await rig.run("delete from outbox_operation")
    assert (told_of.broken, told_of.waiting) == (0, 1)


async def test_a_saga_that_vanished_is_found(rig: Rig) -> None:
    await play(rig, "B")
    await rig.process(rig.start_record("A"))
    topic = await relay(rig)
    saga = rig.saga("A")
    await rig.run("delete from saga where id = $1", saga)
    assert told(await verify(rig, topic)) == [(saga, Fault.SAGA_MISSING, 1)]
    # As if it had been archived, and deleted as the law says: but Kafka and the journal know it.
    await rig.run("update saga_key set final_status = 'COMPLETED' where id = $1", saga)
    assert told(await verify(rig, topic)) == [(saga, Fault.SAGA_MISSING, 1)]
    assert told(await offline(rig)) == [(saga, Fault.SAGA_MISSING, None)]
    await rig.run("delete from journal where saga_id = $1", saga)
    assert told(await verify(rig, topic)) == [(saga, Fault.SAGA_MISSING, 1)]
    later = Scope(since=datetime.now(UTC) - timedelta(minutes=5))
    assert told(await verify(rig, topic, later)) == [(saga, Fault.SAGA_MISSING, 1)]
    await rig.run("delete from saga_key where id = $1", saga)
    assert told(await verify(rig, topic)) == [(saga, Fault.SAGA_MISSING, 1)]
    assert told(await verify(rig, topic, Scope(saga_id=saga))) == [(saga, Fault.SAGA_MISSING, 1)]


async def test_ended_sagas_that_were_deleted_are_told_and_found_while_anything_knows_of_them(
    rig: Rig,
) -> None:
    await play(rig, "A")
    topic = await relay(rig)
    await archive(rig)
    await rig.run("delete from archived_saga")
    assert told(await verify(rig, topic)) == [(rig.saga("A"), Fault.SAGA_MISSING, 1)]
    assert told(await verify(rig, [])) == [(rig.saga("A"), Fault.SAGA_MISSING, None)]
    await rig.run("delete from journal")
    report = await verify(rig, [])
    assert (report.broken, report.deleted, report.sagas) == (0, 1, 0)


async def test_the_archive_is_proved_too(rig: Rig) -> None:
    await play(rig, "A")
    topic = await relay(rig)
    await rig.run("create table if not exists saved_hot as table saga")
    await archive(rig)
    await save(rig)
    raw = await rig.value("select body from archived_saga")
    assert isinstance(raw, bytes)
    body = unpack(raw)
    wrong = body.facts[3]
    longer = ArchivedFact(
        wrong.revision, wrong.ordinal, wrong.fact + b" ", wrong.head, wrong.recorded_at
    )
    later = replace(wrong, recorded_at=wrong.recorded_at - timedelta(days=40))
    snapshot = body.snapshot.replace(b'"COMPENSATED"]', b'"PENDING"]').replace(
        b'"s":"COMPENSATED"', b'"s":"PENDING"'
    )
    forged = "update archived_saga set body = $1"
    tampering: dict[Fault, tuple[str, *tuple[object, ...]]] = {
        Fault.BROKEN_LINK: (forged, pack(_with(body, longer))),
        Fault.CLOCK_DIFFERS: (forged, pack(_with(body, later))),
        Fault.SNAPSHOT_DIFFERS: (forged, pack(Body(snapshot, body.facts))),
        Fault.UNREADABLE: (forged, raw[:-7]),
        Fault.ARCHIVE_DIFFERS: (
            "update journal set fact = fact || '\\x20'::bytea where ordinal = 0",
        ),
        Fault.ROW_DIFFERS: ("update archived_saga set status = 'COMPLETED'",),
        Fault.AUDIT_DIFFERS: ("delete from audit where kind = 'saga:resume'",),
    }
    for fault, (statement, *values) in tampering.items():
        await rig.run(statement, *values)
        assert faults(await offline(rig)) == {(rig.saga("A"), fault)}
        await restore(rig)
    assert (await verify(rig, topic)).breaks == []
    await rig.run("delete from journal")
    await rig.run(forged, pack(Body(body.snapshot, body.facts[:-1])))
    assert faults(await offline(rig)) == {(rig.saga("A"), Fault.OTHER_END)}
    await restore(rig)
    await rig.run("insert into saga table saved_hot")
    assert faults(await offline(rig)) == {(rig.saga("A"), Fault.ARCHIVE_DIFFERS)}
    await rig.run("drop table saved_hot")


def _with(body: Body, forged: ArchivedFact) -> Body:
    return Body(body.snapshot, (*body.facts[:3], forged, *body.facts[4:]))


async def unsealed(rig: Rig, logged: dict[int, bytes] | None = None) -> Report:
    report = Report()
    await prove_seals(rig.database, logged or {}, report)
    return report


async def test_rows_of_the_audit_are_sealed_behind_its_fence(rig: Rig) -> None:
    await play(rig, "A")
    horizon = Horizon(rig.database, held_gauge(CollectorRegistry()))

    async def is_sealed() -> bool:
        await horizon.move()
        return await rig.count("audit_seal") > 0

    await eventually(is_sealed)
    first = await unsealed(rig)
    assert (first.broken, first.unsealed) == (0, 0)
    assert first.audit_rows == await rig.count("audit")
    for name in ("one", "two"):
        await rig.tenants.set_quota("acme", 5, By("ada", name))
    assert (await unsealed(rig)).unsealed == 2
    last = await rig.value("select max(seq) from audit")
    assert isinstance(last, int)
    sealer = Sealer(rig.database)
    async with rig.database.transaction() as conn:
        # Another replica seals, not as far, and ends: what it left is not forgotten.
        await conn.execute(SEALS["try_lock_seals"])
        await sealer.seal(last)
    assert (await unsealed(rig)).unsealed == 2
    await sealer.seal(last)
    head = await rig.value("select head from audit_seal where seq = $1", last)
    assert isinstance(head, bytes)
    await save(rig)
    one = "audit where reason = 'one'"
    for statement in (
        "update audit set reason = 'another' where reason = 'one'",
        "update audit set recorded_at = recorded_at - interval '1 s' where reason = 'one'",
        f"delete from {one}",
        "delete from audit where reason = 'two'",
        f"update {one.replace('where', 'set seq = default where')}",
        "delete from audit",
    ):
        await rig.run(statement)
        (found,) = (await unsealed(rig)).breaks
        assert (found.saga_id, found.fault) == (None, Fault.AUDIT_CHANGED), statement
        await restore(rig)
    # Whoever seals everything anew is sound, but not what the log says.
    await rig.run(f"delete from {one}")
    await rig.run("delete from audit_seal")
    await Sealer(rig.database).seal(last)
    assert (await unsealed(rig)).broken == 0
    (found,) = (await unsealed(rig, {last: head})).breaks
    assert (found.revision, found.expected) == (last, head.hex())


async def test_many_sagas_are_proved_page_by_page_and_each_break_is_counted_once(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"M-{n}") for n in range(120)))
    topic = await relay(rig)
    pages: list[int] = []
    await Verifier(rig.database, Scope(), lambda report: pages.append(report.sagas)).prove()
    assert pages == [50, 100, 120]
    later = Scope(since=datetime.now(UTC) + timedelta(hours=1))
    report = await verify(rig, topic, later)
    assert (report.sagas, report.compared, report.not_compared) == (0, 0, 0)
    await rig.run("update journal set fact = fact || '\\x20'::bytea")
    report = await verify(rig, topic)
    assert (report.broken, len(report.breaks)) == (120, 100)


async def test_the_command_compares_with_kafka(
    rig: Rig, shell: Shell, kafka: Kafka, topic_prefix: str
) -> None:
    topics = Topics(f"{topic_prefix}.")
    bus = ("--kafka", kafka.bootstrap, "--topic-prefix", f"{topic_prefix}.")
    await play(rig, "A", "B")
    connection = KafkaConnection(kafka.bootstrap, "test")
    async with TopicAdmin(connection) as admin:
        await admin.ensure(topics.catalogue([], 3))
    topic = await relay(rig)
    publisher = Publisher(connection)
    published = [
        replace(OutboxRow(r.topic, r.key, r.headers, r.value), topic=topics.lifecycle)
        for r in topic
    ]
    await publisher.publish(published * 2)
    await publisher.close()

    async def said(*words: str, code: int = 0) -> dict[str, Any]:
        return await shell("audit", "verify", *words, *bus, code=code)

    sound = await said("--all")
    assert (sound["broken"], sound["compared"], sound["not_compared"]) == (0, len(topic), 0)
    await rewrite(rig, "B")
    broken = await said("--all", code=BROKEN)
    assert [found["fault"] for found in broken["breaks"]] == ["other_than_published"]
    since = f"{datetime.now(UTC) - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S}"
    assert (await said("--since", since, code=BROKEN))["compared"] == len(topic)
    assert (await said("A"))["broken"] == 0
    assert (await said("B", "--offline"))["compared"] == 0
    assert (await said("B", code=BROKEN))["broken"] == 1
    saga = rig.saga("B")
    await rig.run("delete from saga where id = $1", saga)
    assert (await said(saga, code=BROKEN))["breaks"][0]["fault"] == "saga_missing"
    assert (await said(str(uuid4()), code=4))["error"]["code"] == "not_found"
    assert (await said("--all", "--offline", "--seal", f"1:{'0' * 64}", code=BROKEN))["broken"] > 0
    for words in ((), ("A", "--seal", "1:00"), ("--all", "--seal", "nonsense")):
        assert (await said(*words, code=2))["error"]["code"] == "usage"
    mine = partition_of(saga.encode(), 3)
    async with Excerpt(connection, topics.lifecycle, only=[mine]) as one:
        keys = [record.key async for batch in one.batches() for record in batch]
    assert set(keys) == {saga.encode()}, "one saga costs the partition of its key"
    assert one.size == len(keys) == len(topic)
