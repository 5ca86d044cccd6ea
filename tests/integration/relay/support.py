"""What the relay tests share: outboxes, relays in this process and in their own, readers."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, TopicPartition
from pydantic import SecretStr

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_messages.models import Kind
from sagabus_messages.record import OutboxRow, Record
from sagabus_messages.topics import TopicSpec
from sagabus_relay import COMPONENTS, RelaySettings, build
from sagabus_relay.app import RelayService, outbox_table
from sagabus_relay.config import OutboxSource
from sagabus_relay.parking import Deed
from sagabus_relay.table import OutboxTable
from sagabus_runtime.lifecycle import ServeOptions, serve
from sagabus_store import SHARED, Database, DatabaseOptions, migrate, outbox
from sagabus_testkit import LocalStack, eventually


@dataclass
class Bench:
    """One relay database, one outbox, and a prefix for topics."""

    stack: LocalStack
    prefix: str
    relay_dsn: str
    dsn: str
    database: Database

    @property
    def topic(self) -> str:
        return f"{self.prefix}.orders"

    def environment(self, **more: object) -> dict[str, str]:
        values = {
            "kafka": self.stack.kafka.bootstrap,
            "topic_prefix": f"{self.prefix}.",
            "postgres": self.relay_dsn,
            "outboxes": json.dumps({"orders": self.dsn}),
            "log_level": "info",
            "log_format": "json",
            **more,
        }
        return {f"SAGABUS_{name.upper()}": str(value) for name, value in values.items()}

    def settings(self, **more: object) -> RelaySettings:
        environment = self.environment(**more)
        return RelaySettings.model_validate(
            {name.removeprefix("SAGABUS_").lower(): text for name, text in environment.items()}
        )

    @asynccontextmanager
    async def table(self) -> AsyncIterator[OutboxTable]:
        table = outbox_table(OutboxSource(name="orders", dsn=SecretStr(self.dsn)), 1)
        await table.open()
        try:
            yield table
        finally:
            await table.close()

    async def redrive(self, topic: str, key: bytes) -> int:
        async with self.table() as table:
            deed = Deed("redrive", uuid4().hex, "ada", "the topic was mended")
            return (await table.parking.perform(topic, key, deed)).put_back

    async def append(self, rows: Sequence[OutboxRow]) -> None:
        async with self.database.transaction() as connection:
            await outbox.append_locked(connection, rows)

    async def run(self, statement: str) -> None:
        async with self.database.connection() as connection:
            await connection.execute(statement)

    async def count(self, table: str = "outbox") -> int:
        async with self.database.connection() as connection:
            return int(await connection.fetchval(f"select count(*) from {table}"))

    async def drained(self) -> bool:
        return await self.count() == 0


async def make_topic(stack: LocalStack, name: str, max_bytes: int = 512 * 1024) -> None:
    spec = TopicSpec(name, Kind.COMMAND, None, False, 3, 3_600_000, max_bytes)
    async with TopicAdmin(KafkaConnection(stack.kafka.bootstrap, "test")) as admin:
        await admin.ensure([spec])


@asynccontextmanager
async def bench(stack: LocalStack, prefix: str) -> AsyncIterator[Bench]:
    relay_dsn = stack.postgres.create_database(f"{prefix}_relay")
    dsn = stack.postgres.create_database(f"{prefix}_orders")
    await migrate(relay_dsn, list(COMPONENTS))
    await migrate(dsn, [SHARED])
    database = Database(dsn, DatabaseOptions(application_name="test", pool_size=10))
    await database.open()
    try:
        yield Bench(stack, prefix, relay_dsn, dsn, database)
    finally:
        await database.close()
        stack.postgres.drop_database(f"{prefix}_relay")
        stack.postgres.drop_database(f"{prefix}_orders")


@asynccontextmanager
async def relaying(settings: RelaySettings) -> AsyncIterator[RelayService]:
    service = build(settings)
    task = asyncio.create_task(serve(service, ServeOptions()))
    try:
        yield service
    finally:
        service.health.stop.set()
        async with asyncio.timeout(20):
            await task


class RelayProcess:
    """A relay of its own, to be killed, paused and revived."""

    def __init__(self, bench: Bench, log: Path, **more: object) -> None:
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sagabus_relay"],
                env={**os.environ, **bench.environment(**more)},
                stdout=output,
                stderr=output,
            )

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(10)

    def says(self, event: str) -> int:
        return self.log.read_text().count(event)

    async def until(self, event: str, times: int) -> None:
        await eventually(lambda: self.says(event) >= times, within=20)


def row(topic: str, key: str, number: int, size: int = 0) -> OutboxRow:
    return OutboxRow(topic, key.encode(), (("n", b"%d" % number),), b"x" * size)


def number(record: Record) -> int:
    return int(record.header("n") or b"-1")


async def read(stack: LocalStack, topic: str) -> list[Record]:
    """Return everything that a reader of committed records can see now."""
    async with TopicAdmin(KafkaConnection(stack.kafka.bootstrap, "test")) as admin:
        ends = await admin.end_offsets([topic])
    last = {TopicPartition(*place): end for place, end in ends.items() if end}
    if not last:
        return []
    consumer = AIOKafkaConsumer(
        bootstrap_servers=stack.kafka.bootstrap, isolation_level="read_committed"
    )
    await consumer.start()
    found: list[Record] = []
    try:
        consumer.assign(list(last))
        await consumer.seek_to_beginning(*last)
        while any([await consumer.position(place) < end for place, end in last.items()]):
            for batch in (await consumer.getmany(timeout_ms=200)).values():
                found += [
                    Record(r.topic, r.partition, r.offset, r.key, r.value, tuple(r.headers), 0)
                    for r in batch
                ]
    finally:
        await consumer.stop()
    return found


def firsts(records: Iterable[Record]) -> dict[str, list[int]]:
    """Return the numbers of each key in order of their first occurrence."""
    order: dict[str, dict[int, None]] = {}
    for record in records:
        order.setdefault((record.key or b"").decode(), {}).setdefault(number(record))
    return {key: list(numbers) for key, numbers in order.items()}
