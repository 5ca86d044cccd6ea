"""Records that come again or in another order, as a bus delivers them: same bytes, same headers."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition

from sagabus_bus import BusError, BusUnavailable, KafkaConnection, Published, Publisher, TopicAdmin
from sagabus_bus.errors import translated
from sagabus_messages import OutboxRow

__all__ = ["produce_again", "read_records"]

T = TypeVar("T")
_PATIENCE_S: Final = 60.0
_RETRY_S: Final = 0.2


async def read_records(
    connection: KafkaConnection, topic: str, count: int, depth: float = 0.0
) -> list[OutboxRow]:
    """Return about `count` consecutive records of a topic: its last ones (`depth` 0) or older ones.

    `depth` is the share of the whole log that lies behind the first of them: 1 begins at the
    oldest. Waits for a Kafka that is away; raises `BusUnavailable` after a minute.
    """
    return await _patiently(lambda: _read_once(connection, topic, count, depth))


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
        await _patiently(lambda: _produce(publisher, order))
    finally:
        await publisher.close()
    return len(order)


async def _produce(publisher: Publisher, rows: Sequence[OutboxRow]) -> None:
    for row, outcome in zip(rows, await publisher.publish(rows), strict=True):
        if not isinstance(outcome, Published):
            raise BusUnavailable("bus_unavailable", f"no copy in {row.topic}: {outcome}")


async def _patiently(work: Callable[[], Awaitable[T]]) -> T:
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return await work()
        except BusError as error:
            if not error.retryable or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)


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
