"""How far a consumer is behind, and how long its records took: measured where they arrive."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from sagabus_bus.events import BusMetrics
from sagabus_messages import MessageError, parse_instant
from sagabus_messages.record import Record

__all__ = ["ConsumerMeter"]

LAG_EVERY_S: Final = 1.0
SAMPLES: Final = 25
"""Most records of a batch whose way is measured: the price does not grow with the load."""


def _wall_ms() -> float:
    return time.time() * 1000


class ConsumerMeter:
    """Measures one consumer group of this process; everything it publishes ends with it.

    The age of what is in hand grows while a batch is held in an outage: it is told at each scrape.
    """

    def __init__(
        self,
        group: str,
        metrics: BusMetrics,
        clock: Callable[[], float] = time.monotonic,
        wall_ms: Callable[[], float] = _wall_ms,
    ) -> None:
        self._group = group
        self._metrics = metrics
        self._clock = clock
        self._wall_ms = wall_ms
        self._looked_at = float("-inf")
        self._topics: set[str] = set()
        self._oldest_ms: int | None = None
        metrics.behind.labels(group).set_function(self._behind_s)

    @contextmanager
    def handling(self, records: Sequence[Record]) -> Iterator[None]:
        """Measure the way of the records so far, and the block that handles them."""
        self._oldest_ms = min((r.timestamp_ms for r in records if r.timestamp_ms > 0), default=None)
        self._measure_way(records)
        began = self._clock()
        yield
        self._metrics.batch.observe((self._group,), self._clock() - began)
        self._oldest_ms = None

    async def look(self, consumer: AIOKafkaConsumer) -> None:
        """Publish the lag, at most once a second; asks nobody, the driver knows it all."""
        if self._clock() - self._looked_at < LAG_EVERY_S:
            return
        self._looked_at = self._clock()
        lag: Counter[str] = Counter(dict.fromkeys(self._topics, 0))
        for place in consumer.assignment():
            end = consumer.highwater(place) if place in consumer.assignment() else None
            position = await _position(consumer, place) if end is not None else None
            if end is not None and position is not None:
                lag[place.topic] += max(0, end - position)
        for topic, records in lag.items():
            self._metrics.lag.labels(self._group, topic).set(records)
        self._topics |= lag.keys()

    def close(self) -> None:
        """Publish that nothing waits here any more: the partitions have another owner."""
        self._oldest_ms = None
        for topic in self._topics:
            self._metrics.lag.labels(self._group, topic).set(0)

    def _behind_s(self) -> float:
        if self._oldest_ms is None:
            return 0.0
        return max(0.0, (self._wall_ms() - self._oldest_ms) / 1000)

    def _measure_way(self, records: Sequence[Record]) -> None:
        now_ms = self._wall_ms()
        for record in records[:: -(-len(records) // SAMPLES)]:
            if record.timestamp_ms <= 0:
                continue
            topic = (record.topic,)
            self._metrics.transit.observe(topic, (now_ms - record.timestamp_ms) / 1000)
            written_ms = _ce_time_ms(record)
            if written_ms is not None:
                self._metrics.outbox_wait.observe(topic, (record.timestamp_ms - written_ms) / 1000)


async def _position(consumer: AIOKafkaConsumer, place: TopicPartition) -> int | None:
    """Return the position if it is known, as it is once something was fetched.

    While an offset that is out of range is being reset the driver waits for the leader, for ever,
    and fails once the partition is taken away: no gauge is worth standing still, or an exit.
    """
    try:
        async with asyncio.timeout(0):
            return int(await consumer.position(place))
    except (TimeoutError, KafkaError):
        return None


def _ce_time_ms(record: Record) -> int | None:
    for name, value in record.headers:
        if name == "ce_time":
            try:
                return parse_instant(value.decode("ascii", "replace"))
            except MessageError:
                return None  # the handler will say so, with more to say
    return None
