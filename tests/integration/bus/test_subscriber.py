"""Consuming from a real broker: poison, outages, rebalances, crashes, stops."""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.record.util import calc_crc32c

from sagabus_bus import (
    BatchSubscriber,
    BusUnavailable,
    KafkaConnection,
    Publisher,
    Subscription,
    TopicAdmin,
    TopicUnavailable,
)
from sagabus_core.errors import InvalidValue
from sagabus_core.ids import dead_letter_id
from sagabus_messages.record import Record
from sagabus_runtime import failpoints
from sagabus_runtime.health import Pulse
from sagabus_testkit import Kafka, eventually

from .support import (
    Books,
    Member,
    break_fetching,
    number,
    read,
    rows,
    spec,
    total_committed,
    until_committed,
)


def subscription(topic: str, max_records: int = 500, silence_ms: int = 5_000) -> Subscription:
    return Subscription(
        f"g-{topic}", (topic,), poll_ms=50, max_records=max_records, silence_ms=silence_ms
    )


async def test_trap_04_one_poison_among_a_hundred_blocks_nothing(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 100, keys=25))

    def refuse(records: Sequence[Record]) -> Exception | None:
        found = 42 in map(number, records)
        return InvalidValue("unknown_step", "no step of this name") if found else None

    books = Books(letters=publisher)
    books.fault = refuse
    async with Member(connection, subscription(topic), books).running():
        await eventually(lambda: len(books.durable) == 99 and books.letters)
        await until_committed(connection, topic, 100)
    assert sorted(books.durable) == [n for n in range(100) if n != 42]
    (letter,) = await read(connection, f"{topic}.dlt")
    headers = dict(letter.headers)
    place = (topic, int(headers["sagabus-error-source-partition"]),
             int(headers["sagabus-error-source-offset"]))  # fmt: skip
    assert (letter.key, letter.value, headers["n"]) == (b"saga-17", b"{}", b"42")
    assert headers["raw"] == b"\xff\x00", "headers that are no text stay as they were"
    assert headers["sagabus-error-reason"] == b"unknown_step"
    assert headers["sagabus-dead-letter-id"] == dead_letter_id(*place).encode()


async def test_trap_04_an_outage_of_the_store_is_held_and_then_goes_on(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 30))
    books, failures = Books(), [0]

    def away(_: Sequence[Record]) -> Exception | None:
        failures[0] += 1
        return BusUnavailable("store_unavailable", "x") if failures[0] <= 6 else None

    books.fault = away
    member = Member(connection, subscription(topic), books)
    async with member.running():
        await eventually(lambda: "store_unavailable" in (member.pulse.trouble or ""))
        assert await total_committed(connection, topic) == 0, "nothing acked while holding"
        await eventually(lambda: len(books.durable) == 30)
        await eventually(lambda: member.pulse.trouble is None)
    assert sorted(books.durable) == list(range(30)), "held in memory: no repeats, no loss"
    assert books.letters == []


async def test_trap_03_nothing_is_committed_before_it_is_durable(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 20))
    books = Books()
    books.gate = asyncio.Event()
    async with Member(connection, subscription(topic), books).running():
        await eventually(books.entered.is_set)
        assert await total_committed(connection, topic) == 0
        books.gate.set()
        await until_committed(connection, topic, 20)


async def test_trap_03_a_crash_between_durable_and_commit_repeats_and_loses_nothing(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 20))
    books = Books()
    with failpoints.armed("bus.before-commit=error:connection@1"):
        async with Member(connection, subscription(topic), books).running():
            await until_committed(connection, topic, 20)
    assert set(books.durable) == set(range(20))
    assert len(books.durable) > 20, "the batch came again"


async def test_two_members_share_and_a_lost_one_is_replaced(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 60))
    first, second = Books(), Books()
    first.gate = asyncio.Event()
    wanted = subscription(topic, max_records=10)
    stuck = Member(connection, wanted, first)
    async with stuck.running():
        await eventually(first.entered.is_set)
        async with Member(connection, wanted, second).running():
            await eventually(lambda: second.durable, what="the second has partitions")
            assert first.durable == []
            assert stuck.task is not None
            stuck.task.cancel()  # dies with a batch in hand
            await eventually(lambda: set(second.durable) == set(range(60)))
            await publisher.publish(rows(topic, 60, start=60))
            await eventually(lambda: set(second.durable) == set(range(120)))
            await until_committed(connection, topic, 120)


async def test_a_member_that_joins_while_another_holds_loses_nothing(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 60))
    first, second = Books(), Books()
    away = [True]
    first.fault = lambda _: OSError("the database is away") if away[0] else None
    one = Member(connection, subscription(topic), first)
    async with one.running():
        await eventually(lambda: one.pulse.trouble)
        async with Member(connection, subscription(topic), second).running():
            await eventually(lambda: second.durable)
            away[0] = False
            await eventually(lambda: set(first.durable + second.durable) == set(range(60)))
            await until_committed(connection, topic, 60)
    assert not set(first.places) & set(second.places), "what was taken away was let go"


async def test_trap_14_a_commit_that_a_rebalance_broke_blocks_nobody(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 60))
    first, second = Books(), Books()
    first.gate = asyncio.Event()
    wanted = subscription(topic, max_records=10)
    holding = Member(connection, wanted, first)
    async with holding.running():
        await eventually(first.entered.is_set)
        async with Member(connection, wanted, second).running():
            # The group goes on without the first, which then commits what is no longer its own.
            await eventually(lambda: second.durable)
            first.gate.set()
            await eventually(lambda: set(first.durable + second.durable) == set(range(60)))
            before = len(first.places)
            await publisher.publish(rows(topic, 60, start=60))
            await eventually(lambda: set(first.durable + second.durable) == set(range(120)))
            assert len(first.places) > before, "the first reads on"
            await until_committed(connection, topic, 120)
            assert not holding.pulse.stalled


async def test_kafka_away_in_the_middle_loses_and_dead_letters_nothing(
    connection: KafkaConnection, topic: str, publisher: Publisher, kafka: Kafka
) -> None:
    await publisher.publish(rows(topic, 50))
    books = Books()
    wanted = subscription(topic, max_records=10, silence_ms=500)
    member = Member(connection, wanted, books)
    async with member.running():
        await eventually(lambda: books.durable)
        await asyncio.to_thread(kafka.kill)
        try:
            await eventually(lambda: member.pulse.trouble, what="not ready while it is away")
        finally:
            await asyncio.to_thread(kafka.start)
        await publisher.publish(rows(topic, 50, start=50))
        await eventually(lambda: set(books.durable) == set(range(100)), within=30)
        await until_committed(connection, topic, 100)
        await eventually(lambda: member.pulse.trouble is None)
    assert books.letters == []


async def test_a_member_whose_driver_breaks_is_rebuilt_at_once(
    connection: KafkaConnection,
    topic: str,
    publisher: Publisher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built: list[AIOKafkaConsumer] = []
    build = BatchSubscriber._build

    def remember(subscriber: BatchSubscriber) -> AIOKafkaConsumer:
        built.append(build(subscriber))
        return built[-1]

    monkeypatch.setattr(BatchSubscriber, "_build", remember)
    await publisher.publish(rows(topic, 10))
    books = Books()
    async with Member(connection, subscription(topic), books).running():
        await eventually(lambda: len(books.durable) == 10)
        await break_fetching(built[0])
        await publisher.publish(rows(topic, 10, start=10))
        await eventually(lambda: len(books.durable) >= 20, within=20, what="another consumer")
    assert sorted(set(books.durable)) == list(range(20))


async def test_a_stop_finishes_what_is_in_hand(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 20))
    books = Books()
    books.gate = asyncio.Event()
    member = Member(connection, subscription(topic), books)
    async with member.running():
        await eventually(books.entered.is_set)
        member.stop.set()
        books.gate.set()
    in_hand = len(books.durable)
    assert in_hand > 0
    assert await total_committed(connection, topic) == in_hand


async def test_a_stop_in_an_outage_is_quick_and_commits_nothing(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 5))
    books = Books()
    books.fault = lambda _: OSError("away")
    member = Member(connection, subscription(topic), books)
    async with member.running():
        await eventually(lambda: member.pulse.trouble)
    assert await total_committed(connection, topic) == 0


async def test_a_member_that_stops_while_kafka_is_stalled_does_not_linger(
    connection: KafkaConnection, topic: str, publisher: Publisher, kafka: Kafka
) -> None:
    await publisher.publish(rows(topic, 5))
    wanted = Subscription(f"g-{topic}", (topic,), session_timeout_ms=6_000)
    books = Books()
    async with Member(connection, wanted, books).running():
        await eventually(lambda: len(books.durable) == 5)
        await asyncio.to_thread(kafka.pause)
    await asyncio.to_thread(kafka.resume)

    async def nobody_reads() -> bool:
        async with TopicAdmin(connection) as admin:
            return not (await admin.group(wanted.group)).alive

    gone: Callable[[], bool | Awaitable[bool]] = nobody_reads
    await eventually(gone, within=20, what="its heartbeats have ended")


async def test_a_missing_topic_is_said_and_waited_for(
    connection: KafkaConnection, topic: str
) -> None:
    lonely = BatchSubscriber(connection, Subscription("g", (topic, f"{topic}.gone")), Books())
    with pytest.raises(TopicUnavailable, match=r"topic_missing: no such topic: .*\.gone"):
        await lonely.run(Pulse("bus", 60_000, asyncio.Event()))


async def test_a_topic_that_appears_later_mends_its_readers(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    later, books = f"{topic}.later", Books()
    async with Member(connection, subscription(later), books).running() as member:
        await eventually(lambda: "topic_missing" in (member.pulse.trouble or ""), within=20)
        async with TopicAdmin(connection) as admin:
            await admin.ensure([spec(later)])
        await publisher.publish(rows(later, 10))
        await eventually(lambda: len(books.durable) == 10, within=20)
        assert member.pulse.trouble is None


async def test_what_people_have_to_mend_at_the_broker_is_held_and_told(
    connection: KafkaConnection, topic: str
) -> None:
    """A service that exits instead tells less, and takes with it what still works."""
    wrong = Subscription(f"g-{topic}", (topic,), session_timeout_ms=1_500, heartbeat_ms=500)
    async with Member(connection, wrong, Books()).running() as member:
        await eventually(lambda: "bus_misconfigured" in (member.pulse.trouble or ""), within=20)
        assert member.task is not None
        assert not member.task.done()
        assert not member.pulse.stalled


async def test_a_record_that_the_driver_cannot_decode_is_stepped_over(
    connection: KafkaConnection, topic: str, publisher: Publisher
) -> None:
    await publisher.publish(rows(topic, 30))
    await _send_with_a_broken_header_name(connection, topic)
    await publisher.publish(rows(topic, 30, start=30))
    books = Books(letters=publisher)
    async with Member(connection, subscription(topic), books).running():
        await eventually(lambda: set(books.durable) == set(range(60)), within=20)
        await until_committed(connection, topic, 61)
    assert [code for _, code in books.letters] == ["unreadable_record"]
    (letter,) = await read(connection, f"{topic}.dlt")
    assert dict(letter.headers)["sagabus-error-source-topic"] == topic.encode()


async def _send_with_a_broken_header_name(connection: KafkaConnection, topic: str) -> None:
    """Write what a foreign client could: a header name that is not UTF-8."""
    producer = AIOKafkaProducer(**connection.options())
    await producer.start()
    builder = producer.create_batch()
    builder.append(key=b"saga-0", value=b"{}", headers=[("XXXX", b"")], timestamp=None)
    raw = bytearray(builder._build())
    at = raw.index(b"XXXX")
    raw[at : at + 4] = b"\xff\xfe\xff\xfe"
    raw[17:21] = struct.pack(">I", calc_crc32c(bytes(raw[21:])))
    builder._buffer = raw
    await (await producer.send_batch(builder, topic, partition=1))
    await producer.stop()
