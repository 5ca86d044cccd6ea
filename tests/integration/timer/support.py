"""What the timer tests share: a migrated database, a sender of requests, the wake-ups written."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sagabus_bus import KafkaConnection, Published, Publisher, TopicAdmin
from sagabus_core.ids import saga_id
from sagabus_messages import (
    Envelope,
    Stamp,
    Topics,
    Wakeup,
    WakeupRequest,
    decode,
    encode,
    source_of,
)
from sagabus_messages.record import OutboxRow, Record, unpack_headers
from sagabus_runtime.lifecycle import ServeOptions, serve
from sagabus_store import Database, DatabaseOptions, migrate
from sagabus_testkit import LocalStack, eventually
from sagabus_timer import COMPONENTS, TimerSettings, build
from sagabus_timer.app import TimerService


def saga(number: int) -> str:
    return saga_id("t", "order", f"k{number}")


@dataclass
class Bench:
    """One timer database and its topics."""

    stack: LocalStack
    topics: Topics
    prefix: str
    dsn: str
    database: Database
    publisher: Publisher

    def environment(self, **more: object) -> dict[str, str]:
        values = {
            "kafka": self.stack.kafka.bootstrap,
            "topic_prefix": f"{self.prefix}.",
            "postgres": self.dsn,
            "log_format": "json",
            **more,
        }
        return {f"SAGABUS_{name.upper()}": str(value) for name, value in values.items()}

    def settings(self, **more: object) -> TimerSettings:
        environment = self.environment(**more)
        return TimerSettings.model_validate(
            {name.removeprefix("SAGABUS_").lower(): text for name, text in environment.items()}
        )

    @property
    def group(self) -> str:
        return f"{self.prefix}.sagabus-timer"

    async def now_ms(self) -> int:
        return await self.database.now_ms()

    async def request(
        self, number: int, generation: int, at_ms: int | None, ce_time_ms: int | None = None
    ) -> OutboxRow:
        body = WakeupRequest(saga_id=saga(number), generation=generation, at_ms=at_ms)
        made_at_ms = await self.now_ms() if ce_time_ms is None else ce_time_ms
        stamp = Stamp(source_of("orchestrator"), made_at_ms)
        return encode(body, self.topics.wakeup_request, stamp)

    async def send(self, rows: Sequence[OutboxRow]) -> None:
        outcomes = await self.publisher.publish(rows)
        assert all(isinstance(outcome, Published) for outcome in outcomes)

    async def arm(self, number: int, generation: int, at_ms: int | None) -> None:
        await self.send([await self.request(number, generation, at_ms)])

    async def written(self) -> list[Record]:
        """Return what stands in the outbox, in id order."""
        async with self.database.connection() as connection:
            found = await connection.fetch(
                "select topic, key, value, headers from outbox order by id"
            )
        return [
            Record(r["topic"], 0, n, r["key"], r["value"], unpack_headers(r["headers"]), 0)
            for n, r in enumerate(found)
        ]

    async def wakeups(self) -> list[Envelope]:
        records = [r for r in await self.written() if r.topic == self.topics.wakeup]
        return [decode(record, self.topics) for record in records]

    async def fired(self) -> list[tuple[str, int]]:
        bodies = [envelope.body for envelope in await self.wakeups()]
        return [(b.saga_id, b.generation) for b in bodies if isinstance(b, Wakeup)]

    async def row(self, number: int) -> tuple[int, int | None] | None:
        async with self.database.connection() as connection:
            found = await connection.fetchrow(
                "select generation, due_at_ms from wakeup where saga_id = $1", saga(number)
            )
        return None if found is None else (found["generation"], found["due_at_ms"])

    async def until(self, number: int, generation: int, due_at_ms: int | None) -> None:
        async def reached() -> bool:
            return await self.row(number) == (generation, due_at_ms)

        await eventually(reached, within=20)

    async def until_fired(self, count: int, within: float = 20) -> None:
        async def enough() -> bool:
            return len(await self.fired()) >= count

        await eventually(enough, within=within)


@asynccontextmanager
async def bench(stack: LocalStack, prefix: str) -> AsyncIterator[Bench]:
    topics = Topics(f"{prefix}.")
    connection = KafkaConnection(stack.kafka.bootstrap, "test")
    wanted = {topics.wakeup_request, topics.wakeup, topics.dlt(topics.wakeup_request)}
    async with TopicAdmin(connection) as admin:
        await admin.ensure([spec for spec in topics.catalogue([], 3) if spec.name in wanted])
    dsn = stack.postgres.create_database(f"{prefix}_timer")
    await migrate(dsn, list(COMPONENTS))
    database = Database(dsn, DatabaseOptions(application_name="test", pool_size=4))
    await database.open()
    publisher = Publisher(connection)
    try:
        yield Bench(stack, topics, prefix, dsn, database, publisher)
    finally:
        await publisher.close()
        await database.close()
        stack.postgres.drop_database(f"{prefix}_timer")


@asynccontextmanager
async def timing(settings: TimerSettings) -> AsyncIterator[TimerService]:
    service = build(settings)
    task = asyncio.create_task(serve(service, ServeOptions()))
    try:
        yield service
    finally:
        service.health.stop.set()
        async with asyncio.timeout(30):
            await task


def timer_process(bench: Bench, log: Path, **more: object) -> subprocess.Popen[bytes]:
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "sagabus_timer"],
            env={**os.environ, **bench.environment(**more)},
            stdout=output,
            stderr=output,
        )
