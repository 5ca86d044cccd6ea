"""Records that come again or in another order, as a bus delivers them: same bytes, same headers."""

from __future__ import annotations

import random
from collections.abc import Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition

from sagabus_bus import BusUnavailable, KafkaConnection, Published, Publisher, TopicAdmin
from sagabus_bus.errors import translated
from sagabus_messages import OutboxRow
from sagabus_testkit.faults.lasting import patiently

__all__ = ["produce_again", "read_records"]


async def read_records(
    connection: KafkaConnection, topic: str, count: int, depth: float = 0.0
) -> list[OutboxRow]:
    """Return about `count` consecutive records of a topic: its last ones (`depth` 0) or older ones.

    `depth` is the share of the whole log that lies behind the first of them: 1 begins at the
    oldest. Waits for a Kafka that is away; raises `BusUnavailable` after a minute.
    """
    return await patiently(lambda: _read_once(connection, topic, count, depth))


async def produce_again(
    connection: KafkaConnection, rows: Sequence[OutboxRow], chance: random.Random | None = None
) -> int:
    """Produce copies of records, in their order or in that of `chance`; return how many there are.

    Waits for a Kafka that is away, and may then have produced some twice.
    """
    order = list(rows)
    if chance is not None:
        chance.shuffle(order)
    publisher = Publisher(connection)
    try:
        await patiently(lambda: _produce(publisher, order))
    finally:
        await publisher.close()
    return len(order)


async def _produce(publisher: Publisher, rows: Sequence[OutboxRow]) -> None:
    for row, outcome in zip(rows, await publisher.publish(rows), strict=True):
        if not isinstance(outcome, Published):
            raise BusUnavailable("bus_unavailable", f"no copy in {row.topic}: {outcome}")


async def _read_once(
    connection: KafkaConnection, topic: str, count: int, depth: float
) -> list[OutboxRow]:
    async with TopicAdmin(connection) as admin:
        counts = await admin.partition_counts([topic])
    places = [TopicPartition(topic, number) for number in range(counts[topic])]
    consumer = AIOKafkaConsumer(
        **connection.options(), enable_auto_commit=False, isolation_level="read_committed"
    )
    with translated(f"read {topic}"):
        try:
            await consumer.start()
            consumer.assign(places)
            return await _read(consumer, places, max(1, count // len(places)), depth)
        finally:
            await consumer.stop()


async def _read(
    consumer: AIOKafkaConsumer, places: Sequence[TopicPartition], each: int, depth: float
) -> list[OutboxRow]:
    begins, ends = await consumer.beginning_offsets(places), await consumer.end_offsets(places)
    left: dict[TopicPartition, int] = {}
    for place in places:
        behind = max(each, int((ends[place] - begins[place]) * depth))
        first = max(begins[place], ends[place] - behind)
        consumer.seek(place, first)
        left[place] = min(ends[place], first + each)
    found: list[OutboxRow] = []
    # Commit markers of transactions take offsets too: positions tell the end, not records.
    while any([await consumer.position(place) < end for place, end in left.items()]):
        for batch in (await consumer.getmany(timeout_ms=200)).values():
            found += [OutboxRow(r.topic, r.key, tuple(r.headers), r.value) for r in batch]
    return found
