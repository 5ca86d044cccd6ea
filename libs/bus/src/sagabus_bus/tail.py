"""Reading topics without a group: every reader sees every record from a position of its own."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Literal, Self

from aiokafka import AIOKafkaConsumer, TopicPartition

from sagabus_bus.admin import TopicAdmin
from sagabus_bus.closing import close_consumer
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.consuming import poll, what_broke
from sagabus_bus.errors import BusUnavailable, translated
from sagabus_bus.metadata import pace_metadata
from sagabus_bus.patience import fetch_patiently
from sagabus_messages.record import Record

__all__ = ["Tail"]

FETCH_WAIT_MS = 20


class Tail:
    """Follows topics from their present end, or from their beginning. Use as `async with`.

    Whatever is written after entering is seen, over outages of the broker and in partitions that
    are added later too (once new metadata tell of them); nothing is ever committed. Raises on
    entering `TopicUnavailable` and `BusUnavailable`.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Sequence[str],
        begin: Literal["beginning", "end"] = "end",
    ) -> None:
        self._connection = connection
        self._topics = tuple(topics)
        self._begin = begin
        self._consumer: AIOKafkaConsumer | None = None
        self._next: dict[TopicPartition, int] = {}

    async def __aenter__(self) -> Self:
        async with TopicAdmin(self._connection) as admin:
            await admin.require(self._topics)
            counts = await admin.partition_counts(self._topics)
        places = [TopicPartition(topic, p) for topic, n in counts.items() for p in range(n)]
        self._next = {}
        self._consumer = await self._open(places)
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

    async def poll(self, wait_ms: int = 200, max_records: int = 1_000) -> list[Record]:
        """Return the next records, or none after `wait_ms`. Raises `BusUnavailable`: poll again."""
        if self._consumer is None:
            raise BusUnavailable("bus_unavailable", "use Tail in `async with`")
        if what_broke(self._consumer) is not None:
            await self._replace(self._consumer)
        await self._follow_growth(self._consumer)
        records = await poll(self._consumer, wait_ms, max_records)
        for record in records:
            self._next[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return records

    async def _follow_growth(self, consumer: AIOKafkaConsumer) -> None:
        """Take up added partitions from their beginning: they hold only what came later."""
        present = {
            TopicPartition(topic, partition)
            for topic in self._topics
            for partition in consumer.partitions_for_topic(topic) or ()
        }
        added = present - consumer.assignment()
        if added:
            self._next |= dict.fromkeys(added, 0)
            self._assign(consumer)

    async def _open(self, places: list[TopicPartition]) -> AIOKafkaConsumer:
        """Start a consumer where the last one was, or else at the end or the beginning."""
        consumer = AIOKafkaConsumer(
            **self._connection.options(),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=FETCH_WAIT_MS,
        )
        pace_metadata(consumer._client)  # noqa: SLF001  (no public way to it)
        try:
            with translated(f"follow {', '.join(self._topics)}"):
                await consumer.start()
                consumer.assign(places)
                # The offsets are asked for now: a lazy seek would take the end at the first poll.
                if self._begin == "end":
                    offsets = await consumer.end_offsets(places)
                else:
                    offsets = await consumer.beginning_offsets(places)
                self._next = {**offsets, **self._next}
                self._assign(consumer)
                fetch_patiently(consumer)  # now: the offsets came over the same connection
        except BaseException:
            await close_consumer(consumer, self._connection.request_timeout_ms)
            raise
        return consumer

    async def _replace(self, broken: AIOKafkaConsumer) -> None:
        self._consumer = await self._open(list(self._next))
        await close_consumer(broken, self._connection.request_timeout_ms)

    def _assign(self, consumer: AIOKafkaConsumer) -> None:
        """Read every known partition on from where it was; assigning forgets the positions."""
        consumer.assign(list(self._next))
        for place, offset in self._next.items():
            consumer.seek(place, offset)
