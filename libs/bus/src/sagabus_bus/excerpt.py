"""Reading what a topic holds now: from its beginning, or a time, to its present end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from types import TracebackType
from typing import Final, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from sagabus_bus.admin import TopicAdmin
from sagabus_bus.closing import close_consumer
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.consuming import poll
from sagabus_bus.errors import BusUnavailable, translated
from sagabus_messages.record import Record

__all__ = ["Excerpt"]

WAIT_MS: Final = 200
PATIENCE_S: Final = 30.0


class Excerpt:
    """The records of a topic that were committed when it was entered. Use as `async with`.

    Raises on entering `TopicUnavailable` and `BusUnavailable`.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topic: str,
        *,
        only: Sequence[int] | None = None,
        since_ms: int | None = None,
        patience_s: float = PATIENCE_S,
    ) -> None:
        """`only`: these partitions; `since_ms`: records with a Kafka timestamp at or after it."""
        self._connection = connection
        self._topic = topic
        self._only = only
        self._since_ms = since_ms
        self._patience_s = patience_s
        self._consumer: AIOKafkaConsumer | None = None
        self._begins: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        async with TopicAdmin(self._connection) as admin:
            await admin.require([self._topic])
            counts = await admin.partition_counts([self._topic])
        wanted = range(counts[self._topic]) if self._only is None else self._only
        places = [TopicPartition(self._topic, partition) for partition in wanted]
        consumer = AIOKafkaConsumer(
            **self._connection.options(),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        )
        try:
            with translated(f"read {self._topic}"):
                await consumer.start()
                consumer.assign(places)
                self._ends = await consumer.end_offsets(places)
                self._begins = await self._find_begins(consumer, places)
                for place, begin in self._begins.items():
                    consumer.seek(place, begin)
        except BaseException:
            await close_consumer(consumer, self._connection.request_timeout_ms)
            raise
        self._consumer = consumer
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await close_consumer(consumer, self._connection.request_timeout_ms)

    @property
    def size(self) -> int:
        """How many records it has at most."""
        return sum(end - self._begins[place] for place, end in self._ends.items())

    async def batches(self) -> AsyncIterator[list[Record]]:
        """Yield every record, each partition's in order.

        What retention removes meanwhile is left out. Raises `BusUnavailable` if nothing comes for
        half a minute: an excerpt that only looks complete proves nothing.
        """
        if self._consumer is None:
            raise BusUnavailable("bus_unavailable", "use Excerpt in `async with`")
        clock = asyncio.get_running_loop().time
        heard_s = clock()
        unread = await self._unread(self._consumer, list(self._ends))
        while unread:
            records = await poll(self._consumer, WAIT_MS, 1_000)
            rest = await self._unread(self._consumer, unread)
            if records or rest != unread:
                heard_s = clock()
            elif clock() - heard_s > self._patience_s:
                raise BusUnavailable(
                    "bus_unavailable", f"{self._topic}: the rest of {len(rest)} partitions is late"
                )
            unread = rest
            # What was committed after entering belongs to the next excerpt.
            yield [record for record in records if record.offset < self._end(record)]

    def _end(self, record: Record) -> int:
        return self._ends[TopicPartition(record.topic, record.partition)]

    async def _find_begins(
        self, consumer: AIOKafkaConsumer, places: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        if self._since_ms is None:
            return dict(await consumer.beginning_offsets(places))
        found = await consumer.offsets_for_times(dict.fromkeys(places, self._since_ms))
        return {
            place: self._ends[place] if at is None else at.offset for place, at in found.items()
        }

    async def _unread(
        self, consumer: AIOKafkaConsumer, places: list[TopicPartition]
    ) -> list[TopicPartition]:
        """Return partitions that are not at their end; positions also pass what yields nothing."""
        with translated(f"read {self._topic}"):
            return [
                place
                for place in places
                if self._begins[place] < self._ends[place]
                and await consumer.position(place) < self._ends[place]
            ]
