"""The process itself, Kafka to Kafka, killed on its way; relay and participants are the test."""

import asyncio
import os
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from sagabus_bus import KafkaConnection, Published, Publisher, Tail, TopicAdmin
from sagabus_core.canonical import canonical_bytes
from sagabus_core.vocabulary import ResultStatus
from sagabus_expressions import CelConditions
from sagabus_messages import Command, Lifecycle, OutboxRow, Topics, decode, unpack_headers
from sagabus_orchestrator.registry import Registry
from sagabus_store import Database, DatabaseOptions
from sagabus_testkit import LocalStack, eventually
from sagabus_testkit.faults import dismiss_members

from .crash_world import HOUR_MS, document
from .support import Rig, no_topics_missing

OWNERS = ("inventory", "payment", "shipping")
SAGAS = 12


@dataclass
class Process:
    """`python -m sagabus_orchestrator`, which may be killed and started again."""

    environment: dict[str, str]
    _running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "sagabus_orchestrator"]
        self._running = subprocess.Popen(command, env=self.environment)

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill()
            self._running.wait(10)

    def stop(self) -> int:
        assert self._running is not None
        self._running.terminate()
        return self._running.wait(20)

    def ready(self) -> bool:
        port = self.environment["SAGABUS_HEALTH_PORT"]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    async def until_ready(self) -> None:
        await eventually(lambda: asyncio.to_thread(self.ready), within=40)


@dataclass
class Bystanders:
    """Relay and participants in one: what the outbox says goes to Kafka, commands are answered."""

    database: Database
    publisher: Publisher
    connection: KafkaConnection
    topics: Topics
    ends: dict[str, str] = field(default_factory=dict)

    async def relay(self) -> None:
        while True:
            async with self.database.connection() as conn:
                rows = await conn.fetch("select * from outbox order by id limit 200")
            sent = [
                OutboxRow(r["topic"], r["key"], unpack_headers(r["headers"]), r["value"])
                for r in rows
                if not r["topic"].endswith("wakeup.request.v1")  # nothing times out here
            ]
            for outcome in await self.publisher.publish(sent) if sent else []:
                assert isinstance(outcome, Published)
            async with self.database.connection() as conn:
                await conn.execute("delete from outbox where id = any($1)", [r["id"] for r in rows])
                await conn.execute("select pg_sleep(0.02)")

    async def participate(self, rig: Rig) -> None:
        wanted = [self.topics.command(owner) for owner in OWNERS]
        async with Tail(self.connection, wanted, begin="beginning") as tail:
            while True:
                commands = [decode(record, self.topics).body for record in await tail.poll()]
                answers = [self._answer(rig, c) for c in commands if isinstance(c, Command)]
                if answers:
                    await self.publisher.publish(answers)

    def _answer(self, rig: Rig, command: Command) -> OutboxRow:
        odd = command.business_key.endswith(("1", "3", "5", "7", "9"))
        refused = command.step == "ship" and odd
        status = ResultStatus.REJECTED if refused else ResultStatus.SUCCEEDED
        record = rig.result_record(command, status, at_ms=command.expires_at_ms - HOUR_MS)
        return OutboxRow(
            f"{self.topics.prefix}{record.topic}", record.key, record.headers, record.value
        )

    async def watch(self) -> None:
        async with Tail(self.connection, [self.topics.lifecycle], begin="beginning") as tail:
            while True:
                for record in await tail.poll():
                    event = decode(record, self.topics).body
                    assert isinstance(event, Lifecycle)
                    self.ends[event.business_key] = str(event.status)

    @asynccontextmanager
    async def running(self, rig: Rig) -> AsyncIterator[None]:
        tasks = [
            asyncio.create_task(work)
            for work in (self.relay(), self.participate(rig), self.watch())
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task
            await self.publisher.close()
            await self.database.close()


@pytest.fixture
async def process(database: str, stack: LocalStack, topic_prefix: str) -> AsyncIterator[Process]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    made = Process(
        {
            **os.environ,
            "SAGABUS_KAFKA": stack.kafka.bootstrap,
            "SAGABUS_TOPIC_PREFIX": f"{topic_prefix}.",
            "SAGABUS_POSTGRES": database,
            "SAGABUS_HEALTH_PORT": str(port),
        }
    )
    yield made
    made.kill()


async def test_sagas_run_from_kafka_to_kafka_through_a_kill(
    process: Process, database: str, stack: LocalStack, topic_prefix: str, empty_rig: Rig
) -> None:
    topics = Topics(f"{topic_prefix}.")
    connection = KafkaConnection(stack.kafka.bootstrap, "test")
    async with TopicAdmin(connection) as admin:
        await admin.ensure(topics.catalogue(OWNERS, partitions=2))
    process.start()
    await process.until_ready()
    own = Database(database, DatabaseOptions(application_name="test", pool_size=4))
    await own.open()
    publisher = Publisher(connection)
    bystanders = Bystanders(own, publisher, connection, topics)
    registry = Registry(own, CelConditions(), topics)
    published = await registry.publish(canonical_bytes(document()))
    await registry.activate(published.ref, no_topics_missing)

    async with bystanders.running(empty_rig):
        starts = [empty_rig.start_record(f"ORD-{n}") for n in range(SAGAS)]
        await publisher.publish(
            [OutboxRow(topics.start, r.key, r.headers, r.value) for r in starts]
        )
        await eventually(lambda: len(bystanders.ends) == SAGAS, within=40)
        process.kill()
        await dismiss_members(connection, f"{topic_prefix}.sagabus-orchestrator")
        process.start()
        expected = {f"ORD-{n}": ("COMPLETED", "COMPENSATED")[n % 2] for n in range(SAGAS)}
        await eventually(lambda: bystanders.ends == expected, within=60)
        assert process.stop() == 0
