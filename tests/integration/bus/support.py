"""What the tests of the bus share: a handler that keeps books, and members of a group."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress

from aiokafka import AIOKafkaConsumer
from prometheus_client import CollectorRegistry

from sagabus_bus import (
    BatchSubscriber,
    KafkaConnection,
    Publisher,
    Reason,
    Subscription,
    TopicAdmin,
    WorkerOptions,
    dead_letter_row,
)
from sagabus_messages.models import Kind
from sagabus_messages.record import OutboxRow, Record
from sagabus_messages.topics import TopicSpec
from sagabus_runtime.backoff import BackOffPolicy
from sagabus_runtime.health import Pulse
from sagabus_runtime.supervision import Loop, Supervisor
from sagabus_testkit import eventually

QUICK = WorkerOptions(outage=BackOffPolicy(20, 200), suspicion=BackOffPolicy(20, 200))


def spec(name: str, partitions: int = 3, max_bytes: int = 512 * 1024) -> TopicSpec:
    return TopicSpec(name, Kind.START, None, False, partitions, 3_600_000, max_bytes)


def rows(topic: str, count: int, keys: int = 10, start: int = 0) -> list[OutboxRow]:
    return [
        OutboxRow(topic, b"saga-%d" % (n % keys), (("n", b"%d" % n), ("raw", b"\xff\x00")), b"{}")
        for n in range(start, start + count)
    ]


def number(record: Record) -> int:
    return int(record.header("n") or b"-1")


class Books:
    """A handler whose durable state is a list; `fault` may refuse a slice before it counts."""

    def __init__(self, letters: Publisher | None = None) -> None:
        self.durable: list[int] = []
        self.places: list[tuple[str, int, int]] = []
        self.letters: list[tuple[int, str]] = []
        self.fault: Callable[[Sequence[Record]], Exception | None] = lambda _: None
        self.gate: asyncio.Event | None = None
        self.entered = asyncio.Event()
        self._publisher = letters

    async def process(self, records: Sequence[Record]) -> None:
        self.entered.set()
        if self.gate is not None:
            await self.gate.wait()
        error = self.fault(records)
        if error is not None:
            raise error
        self.durable += [number(record) for record in records]
        self.places += [(r.topic, r.partition, r.offset) for r in records]

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        if self._publisher is not None:
            row = dead_letter_row(record, reason, attempts=attempts, seen_at_ms=0)
            await self._publisher.publish([row])
        self.letters.append((number(record), reason.code))


class Member:
    """A supervised subscriber, as a service runs it."""

    def __init__(self, connection: KafkaConnection, wanted: Subscription, books: Books) -> None:
        self.stop = asyncio.Event()
        self.pulse = Pulse("bus", 60_000, self.stop)
        self._loop = Loop(
            "bus",
            BatchSubscriber(connection, wanted, books, options=QUICK).run,
            back_off=BackOffPolicy(50, 500),
        )
        self.task: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Member"]:
        supervisor = Supervisor(CollectorRegistry())
        self.task = asyncio.create_task(supervisor.supervise(self._loop, self.pulse))
        try:
            yield self
        finally:
            self.stop.set()
            async with asyncio.timeout(20):
                with suppress(asyncio.CancelledError):
                    await self.task


async def break_fetching(consumer: AIOKafkaConsumer) -> None:
    """Let the driver's next fetch fail as a write to a reset connection does under uvloop."""

    async def write(*_: object, **__: object) -> None:
        raise RuntimeError("the handler is closed")

    vars(consumer._client)["send"] = write
    assert consumer._fetcher is not None
    await eventually(consumer._fetcher._fetch_task.done)
    del vars(consumer._client)["send"]


async def total_committed(connection: KafkaConnection, topic: str) -> int:
    async with TopicAdmin(connection) as admin:
        return sum(lag.committed or 0 for lag in await admin.lag(f"g-{topic}", [topic]))


async def until_committed(connection: KafkaConnection, topic: str, count: int) -> None:
    async def enough() -> bool:
        return await total_committed(connection, topic) >= count

    condition: Callable[[], bool | Awaitable[bool]] = enough
    await eventually(condition, within=20)


async def read(
    connection: KafkaConnection, topic: str, isolation: str = "read_committed"
) -> list[Record]:
    """Return everything that a reader of this isolation can see now."""
    async with TopicAdmin(connection) as admin:
        ends = await admin.end_offsets([topic])
    consumer = AIOKafkaConsumer(
        topic,
        **connection.options(),
        auto_offset_reset="earliest",
        isolation_level=isolation,
        fetch_max_wait_ms=20,
    )
    await consumer.start()
    found: list[Record] = []
    try:
        async with asyncio.timeout(15):
            while not await _at_end(consumer, ends):
                for batch in (await consumer.getmany(timeout_ms=50)).values():
                    found += [
                        Record(
                            r.topic,
                            r.partition,
                            r.offset,
                            r.key,
                            r.value,
                            tuple(r.headers),
                            r.timestamp,
                        )
                        for r in batch
                    ]
    finally:
        await consumer.stop()
    return found


async def _at_end(consumer: AIOKafkaConsumer, ends: dict[tuple[str, int], int]) -> bool:
    places = {(place.topic, place.partition): place for place in consumer.assignment()}
    return set(places) == set(ends) and all(
        [await consumer.position(places[key]) >= end for key, end in ends.items()]
    )
