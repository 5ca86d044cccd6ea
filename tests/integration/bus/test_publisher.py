"""Publishing to a real broker: order, refusals, missing topics, fencing, an absent broker."""

import asyncio
import time

import pytest

from sagabus_bus import (
    Blocked,
    Held,
    KafkaConnection,
    ProducerFenced,
    Published,
    Publisher,
    PublisherOptions,
    Refused,
    Unacknowledged,
    partition_of,
)
from sagabus_messages.record import OutboxRow
from sagabus_runtime import failpoints
from sagabus_testkit import Kafka

from .support import number, read, rows


@pytest.fixture(params=["plain", "epoch", "transactions"])
def options(request: pytest.FixtureRequest, topic_prefix: str) -> PublisherOptions:
    identity = None if request.param == "plain" else f"{topic_prefix}-shard-1"
    return PublisherOptions(identity, transactions=request.param == "transactions")


def large(topic: str, key: bytes) -> OutboxRow:
    return OutboxRow(topic, key, (("n", b"-7"),), b"x" * 600_000)


async def test_rows_arrive_in_order_per_key_as_they_were(
    connection: KafkaConnection, topic: str, options: PublisherOptions
) -> None:
    publisher, sent = Publisher(connection, options), rows(topic, 300, keys=7)
    outcomes = await publisher.publish(sent)
    await publisher.close()
    found = await read(connection, topic)
    assert all(isinstance(outcome, Published) for outcome in outcomes)
    for key in {row.key for row in sent}:
        mine = [r for r in found if r.key == key]
        assert [(r.headers, r.value) for r in mine] == [
            (s.headers, s.value) for s in sent if s.key == key
        ]
        assert {r.partition for r in mine} == {partition_of(key, 3)}
    at = {(r.partition, r.offset): number(r) for r in found}
    for n, outcome in enumerate(outcomes):
        assert isinstance(outcome, Published)
        assert at[outcome.partition, outcome.offset] == n


async def test_a_too_large_record_is_named_and_the_others_pass(
    connection: KafkaConnection, topic: str, options: PublisherOptions
) -> None:
    sent = rows(topic, 40, keys=4)
    sent[17:17] = [large(topic, b"saga-1")]
    publisher = Publisher(connection, options)
    outcomes = await publisher.publish(sent)
    again = await publisher.publish(rows(topic, 4, keys=4, start=100))
    await publisher.close()
    refused = outcomes[17]
    assert isinstance(refused, Refused)
    assert refused.error.code == "record_too_large"
    for n, (row, outcome) in enumerate(zip(sent, outcomes, strict=True)):
        follows = row.key == b"saga-1" and n > 17
        assert isinstance(outcome, Blocked if follows else Published) or n == 17
    assert all(isinstance(outcome, Published) for outcome in again), "the producer was rebuilt"
    expected = [s for s, o in zip(sent, outcomes, strict=True) if isinstance(o, Published)]
    assert len(await read(connection, topic)) == len(expected) + 4


async def test_a_row_that_cannot_be_encoded_is_named(
    connection: KafkaConnection, topic: str, options: PublisherOptions
) -> None:
    bad = OutboxRow(topic, b"saga-2", (("\ud800", b""),), b"")
    publisher = Publisher(connection, options)
    outcomes = await publisher.publish([*rows(topic, 9), bad])
    await publisher.close()
    assert [type(o) for o in outcomes] == [Published] * 9 + [Refused]


async def test_a_missing_topic_holds_that_topic_only(
    connection: KafkaConnection, topic: str, options: PublisherOptions
) -> None:
    publisher = Publisher(connection, options)
    missing = OutboxRow(f"{topic}.nobody-made-this", b"saga-0", (), b"")
    began = time.monotonic()
    outcomes = await publisher.publish([missing, *rows(topic, 9), missing])
    await publisher.close()
    assert [type(o) for o in outcomes] == [Held] + [Published] * 9 + [Held]
    held = outcomes[0]
    assert isinstance(held, Held)
    assert held.error.code == "topic_missing"
    assert time.monotonic() - began < 5, "nobody waits for a topic that is not there"


@pytest.mark.parametrize("transactions", [False, True], ids=["epoch", "transactions"])
async def test_an_older_owner_is_fenced(
    connection: KafkaConnection, topic: str, topic_prefix: str, transactions: bool
) -> None:
    options = PublisherOptions(f"{topic_prefix}-shard", transactions)
    old, new = Publisher(connection, options), Publisher(connection, options)
    await old.publish(rows(topic, 30))
    await new.publish(rows(topic, 30, start=30))
    with pytest.raises(ProducerFenced):
        await old.publish(rows(topic, 30, start=60))
    await new.publish(rows(topic, 30, start=90))
    await old.close()
    await new.close()
    seen = [number(record) for record in await read(connection, topic)]
    assert sorted(seen) == [*range(60), *range(90, 120)]


async def test_a_lost_lease_sends_nothing_more(connection: KafkaConnection, topic: str) -> None:
    class LeaseLost(Exception):
        pass

    asked = [0]

    def guard() -> None:
        asked[0] += 1
        if asked[0] == 4:  # before the call, before the round, the first wave, the second
            raise LeaseLost

    one_row_per_wave = PublisherOptions(max_batch_bytes=100)
    publisher = Publisher(connection, one_row_per_wave)
    with pytest.raises(LeaseLost):
        await publisher.publish(rows(topic, 5, keys=1), guard)
    await publisher.close()
    assert [number(record) for record in await read(connection, topic)] == [0]


async def test_what_was_abandoned_is_never_sent(
    connection: KafkaConnection, topic: str, kafka: Kafka
) -> None:
    publisher = Publisher(connection, PublisherOptions(delivery_timeout_ms=2_000))
    outcomes = await publisher.publish(rows(topic, 3))
    assert {type(outcome) for outcome in outcomes} == {Published}
    await asyncio.to_thread(kafka.stop)
    try:
        outcomes = await publisher.publish(rows(topic, 20, start=3))
        assert {type(outcome) for outcome in outcomes} == {Unacknowledged}
    finally:
        await asyncio.to_thread(kafka.start)
    await publisher.close()
    later = Publisher(connection)
    outcomes = await later.publish(rows(topic, 3, start=50))
    await later.close()
    assert {type(outcome) for outcome in outcomes} == {Published}
    seen = sorted(number(record) for record in await read(connection, topic))
    assert seen == [0, 1, 2, 50, 51, 52]


async def test_a_crash_inside_a_transaction_leaves_nothing_to_see(
    connection: KafkaConnection, topic: str, topic_prefix: str
) -> None:
    options = PublisherOptions(f"{topic_prefix}-shard", transactions=True)
    publisher = Publisher(connection, options)
    with failpoints.armed("bus.after-send=error:connection@1"), pytest.raises(ConnectionError):
        await publisher.publish(rows(topic, 10))
    await publisher.publish(rows(topic, 10, start=10))
    await publisher.close()
    committed = sorted(number(record) for record in await read(connection, topic))
    assert committed == list(range(10, 20))
    assert len(await read(connection, topic, "read_uncommitted")) == 20


async def test_overlapping_calls_take_turns(connection: KafkaConnection, topic: str) -> None:
    publisher = Publisher(connection)
    await asyncio.gather(*(publisher.publish(rows(topic, 20, 1, start=n * 20)) for n in range(5)))
    await publisher.close()
    seen = [number(record) for record in await read(connection, topic)]
    assert seen == list(range(100))


async def test_no_rows_need_no_broker() -> None:
    assert await Publisher(KafkaConnection("127.0.0.1:1", "test")).publish([]) == []
