"""One life of a driver's producer: opened, used, and closed or abandoned unflushed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import ProducerClosed
from aiokafka.partitioner import murmur2

from sagabus_bus.closing import close_client
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.errors import (
    BusError,
    BusUnavailable,
    RecordRefused,
    TopicUnavailable,
    translate,
    translated,
)
from sagabus_bus.lanes import Batch, Place, row_bytes
from sagabus_bus.metadata import pace_metadata
from sagabus_bus.security import opening

__all__ = ["ProducerSession", "PublisherOptions", "partition_of"]

ABANDON_TIMEOUT_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """How a publisher writes.

    With a `transactional_id` the broker fences an older owner of the id: with `transactions` from
    the moment that a new one opens, everywhere, and every call is a transaction; without, in each
    partition from the first record that the new one writes there. `max_batch_bytes` is at most
    the smallest `max.message.bytes` of the topics written to.
    """

    transactional_id: str | None = None
    transactions: bool = False
    transaction_timeout_ms: int = 15_000
    max_batch_bytes: int = 256 * 1024
    max_record_bytes: int = 8 * 1024 * 1024
    open_timeout_ms: int = 15_000
    delivery_timeout_ms: int = 10_000


def partition_of(key: bytes | None, partitions: int) -> int:
    """Return the partition of a key as Java's default partitioner does (murmur2).

    Records without a key share one partition: their order within a topic is kept as well.
    """
    return (_murmur2(key or b"") & 0x7FFFFFFF) % partitions


@lru_cache(maxsize=1 << 16)
def _murmur2(key: bytes) -> int:
    # About 10 us in pure Python, and a saga publishes several records.
    return int(murmur2(key))


class ProducerSession:
    """A started producer. After any failure it must be abandoned: its sequences are off then."""

    def __init__(self, producer: AIOKafkaProducer, options: PublisherOptions) -> None:
        self._producer = producer
        self._options = options

    @classmethod
    async def open(cls, connection: KafkaConnection, options: PublisherOptions) -> ProducerSession:
        """Start a producer; with a transactional id this fences older owners of it."""
        if options.transactional_id is None or options.transactions:
            return await cls._started(connection, options, options.transactional_id, None)
        # Opening a transactional producer raises the epoch of its id: our fence.
        owner = await cls._started(connection, options, options.transactional_id, None)
        identity = owner.identity()
        await owner.close()
        return await cls._started(connection, options, None, identity)

    @classmethod
    async def _started(
        cls,
        connection: KafkaConnection,
        options: PublisherOptions,
        transactional_id: str | None,
        identity: tuple[int, int] | None,
    ) -> ProducerSession:
        producer = AIOKafkaProducer(
            **connection.options(),
            acks="all",
            enable_idempotence=True,
            transactional_id=transactional_id,
            transaction_timeout_ms=options.transaction_timeout_ms,
            # Batches are ours (lanes); the driver's limit only has to be above our estimate.
            max_batch_size=options.max_batch_bytes * 2,
            linger_ms=0,
        )
        pace_metadata(producer.client)
        session = cls(producer, options)
        if identity is not None:
            # Non-transactional writes under a fenced epoch: the driver then asks for no other id.
            producer._txn_manager.set_pid_and_epoch(*identity)  # noqa: SLF001
        try:
            async with opening(connection, f"reach Kafka at {connection.bootstrap}"):
                async with asyncio.timeout(options.open_timeout_ms / 1000):
                    await producer.start()
        except BaseException:
            await session.abandon()
            raise
        return session

    async def partition_counts(self, topics: Iterable[str]) -> dict[str, int | TopicUnavailable]:
        """Return for each topic its number of partitions, or why it cannot be written to."""
        counts: dict[str, int | TopicUnavailable] = {}
        with translated("look up topics"):
            async with asyncio.timeout(self._options.delivery_timeout_ms / 1000):
                for topic in topics:
                    counts[topic] = await self._partition_count(topic)
        return counts

    async def begin(self) -> None:
        """Begin a transaction."""
        await self._bounded(self._producer.begin_transaction(), "begin a transaction")

    async def commit(self) -> None:
        """Return once the transaction is committed. After an error it may be, or may not."""
        await self._bounded(self._producer.commit_transaction(), "commit a transaction")

    async def send(self, wave: dict[Place, Batch]) -> dict[Place, int | BusError]:
        """Send one batch to each place; return its base offset, or what stands in the way."""
        results: dict[Place, int | BusError] = {}
        flying: dict[asyncio.Future[Any], Place] = {}
        for place, batch in wave.items():
            try:
                flying[await self._launch(place, batch)] = place
            except BusError as error:
                results[place] = error
        timeout_s = self._options.delivery_timeout_ms / 1000
        landed, _ = await asyncio.wait(flying, timeout=timeout_s) if flying else (set(), set())
        for future, place in flying.items():
            results[place] = _result(future, place) if future in landed else _late(place)
        return results

    async def close(self) -> None:
        """Close after everything in flight has landed; abandon it if that takes too long."""
        try:
            with translated("close a producer"):
                async with asyncio.timeout(self._options.delivery_timeout_ms / 1000):
                    await self._producer.stop()
        except BusError:
            await self.abandon()

    async def abandon(self) -> None:
        """Close at once and send nothing more, whatever is in flight. Never raises.

        The driver's `stop` flushes first, which is what must not happen after a lost lease or a
        refused batch, and which never ends while the broker is away. It has no public way round.
        """
        producer = self._producer
        accumulator, sender = producer._message_accumulator, producer._sender  # noqa: SLF001
        accumulator.fail_all(ProducerClosed())
        await close_client(producer.client)
        _cancel(sender.sender_task)
        with suppress(BusError), translated("abandon a producer"):
            async with asyncio.timeout(ABANDON_TIMEOUT_S):
                await producer.stop()
        # A second cancel breaks the driver's wait for requests that get no answer, a second close
        # a connection that such a request has opened again.
        _cancel(sender.sender_task)
        await close_client(producer.client)

    def identity(self) -> tuple[int, int]:
        """Return the producer id and epoch that the broker gave."""
        manager = self._producer._txn_manager  # noqa: SLF001  (the driver tells nobody)
        return int(manager.producer_id), int(manager.producer_epoch)

    async def _partition_count(self, topic: str) -> int | TopicUnavailable:
        client = self._producer.client
        if client.cluster.partitions_for_topic(topic) is None:
            # `partitions_for` waits for a missing topic until it times out: ask what exists first.
            everything = await client.fetch_all_metadata()
            if topic in everything.unauthorized_topics:
                return TopicUnavailable("topic_forbidden", f"no right to describe {topic}")
            if topic not in everything.topics():
                return TopicUnavailable("topic_missing", f"no such topic: {topic}")
        return len(await self._producer.partitions_for(topic))

    async def _launch(self, place: Place, batch: Batch) -> asyncio.Future[Any]:
        builder = self._producer.create_batch()
        for _, row in batch:
            if row_bytes(row) > self._options.max_record_bytes:
                raise RecordRefused(
                    "record_too_large",
                    f"about {row_bytes(row)} bytes, more than {self._options.max_record_bytes}",
                )
            try:
                packed = builder.append(
                    key=row.key, value=row.value, headers=list(row.headers), timestamp=None
                )
            except (TypeError, ValueError) as error:
                raise RecordRefused("record_invalid", f"cannot be encoded: {error}") from error
            if packed is None:
                raise RecordRefused("record_too_large", "does not fit into one batch")
        builder.close()
        with translated(f"send to {place[0]}"):
            future: asyncio.Future[Any] = await self._producer.send_batch(
                builder, place[0], partition=place[1]
            )
        future.add_done_callback(_look_at)
        return future

    async def _bounded(self, step: Awaitable[object], doing: str) -> None:
        with translated(doing):
            async with asyncio.timeout(self._options.delivery_timeout_ms / 1000):
                await step


def _cancel(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()


def _result(future: asyncio.Future[Any], place: Place) -> int | BusError:
    if future.cancelled():
        return BusUnavailable("bus_unavailable", f"send to {place[0]}: the driver gave up")
    error = future.exception()
    if error is not None:
        return translate(error, f"send to {place[0]}")
    return int(future.result().offset)


def _late(place: Place) -> BusUnavailable:
    return BusUnavailable(
        "bus_unavailable", f"no acknowledgement from {place[0]}/{place[1]} in time"
    )


def _look_at(future: asyncio.Future[Any]) -> None:
    # Abandoned batches fail after nobody waits for them any more; that is no event.
    if not future.cancelled():
        future.exception()
