"""How fast the relay is beside its floors, how soon it is at low load, and what idling costs.

Run it: `python -m tests.bench.relay_rate [rows]`. Asserts nothing.
"""

import asyncio
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from tests.bench.pausing import pause
from tests.bench.report import beside, keep

from sagabus_bus import KafkaConnection, Publisher, PublisherOptions, TopicAdmin
from sagabus_messages.models import Kind
from sagabus_messages.record import OutboxRow
from sagabus_messages.topics import TopicSpec
from sagabus_relay import COMPONENTS
from sagabus_store import SHARED, Database, DatabaseOptions, migrate, outbox
from sagabus_testkit import LocalStack

HEADERS = tuple((f"ce_header{n}", b"some-value-of-a-header") for n in range(10))
BATCH, TICKS = 500, os.sysconf("SC_CLK_TCK")


def rows(topic: str, count: int) -> list[OutboxRow]:
    value = os.urandom(300).hex().encode()
    return [OutboxRow(topic, b"saga-%030d" % (n % 2_000), HEADERS, value) for n in range(count)]


async def append(database: Database, batch: Sequence[OutboxRow]) -> None:
    async with database.transaction() as connection:
        await outbox.append(connection, batch)


async def count(database: Database) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval("select count(*) from outbox"))


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


async def kafka_floor(bootstrap: str, topic: str, total: int) -> float:
    publisher = Publisher(KafkaConnection(bootstrap, "floor"), PublisherOptions())
    batch = rows(topic, BATCH)
    await publisher.publish(batch)
    began = time.perf_counter()
    for _ in range(total // BATCH):
        await publisher.publish(batch)
    rate = total / (time.perf_counter() - began)
    await publisher.close()
    return rate


async def low_load(database: Database, bootstrap: str, topic: str) -> dict[str, float]:
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=bootstrap, auto_offset_reset="latest", fetch_max_wait_ms=5,
        isolation_level="read_committed",
    )  # fmt: skip
    await consumer.start()
    await consumer.seek_to_end()
    for place in consumer.assignment():  # the driver seeks at the next look, and that may be late
        await consumer.position(place)
    committed: dict[bytes, float] = {}
    # A record may be here before its writer has the news of its commit.
    arrived: dict[bytes, float] = {}

    async def write() -> None:
        for n in range(200):
            key = b"probe-%d" % n
            await append(database, [OutboxRow(topic, key, HEADERS, b"{}")])
            committed[key] = time.perf_counter()
            await pause(0.05)

    writer = asyncio.create_task(write())
    async with asyncio.timeout(60):
        while len(arrived) < 200:
            record = await consumer.getone()
            if record.key is not None and record.key.startswith(b"probe-"):
                arrived.setdefault(record.key, time.perf_counter())
        await writer
    await consumer.stop()
    late = sorted(max(0.0, arrived[key] - at) * 1000 for key, at in committed.items())
    return {"p50_ms": statistics.median(late), "p99_ms": late[int(len(late) * 0.99)]}


async def idling(database: Database, pid: int) -> dict[str, float]:
    async def statements() -> int:
        async with database.connection() as connection:
            return int(
                await connection.fetchval(
                    "select xact_commit from pg_stat_database where datname = current_database()"
                )
            )

    await pause(2)
    before, cpu = await statements(), cpu_s(pid)
    await pause(6)
    return {
        "statements_per_s": (await statements() - before) / 6,
        "relay_cpu_share": (cpu_s(pid) - cpu) / 6,
    }


async def main(stack: LocalStack, total: int, delivery: str) -> dict[str, object]:
    name = f"bench{secrets.token_hex(3)}"
    bootstrap = stack.kafka.bootstrap
    own, dsn = stack.postgres.create_database(f"{name}_r"), stack.postgres.create_database(name)
    await migrate(own, list(COMPONENTS))
    await migrate(dsn, [SHARED])
    database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=4))
    await database.open()
    async with TopicAdmin(KafkaConnection(bootstrap, "bench")) as admin:
        await admin.ensure([TopicSpec(name, Kind.COMMAND, None, False, 6, 3_600_000, 1_000_000)])
    began = time.perf_counter()
    for _ in range(total // BATCH):
        await append(database, rows(name, BATCH))
    insert_rate = total / (time.perf_counter() - began)
    floor = await kafka_floor(bootstrap, name, total // 2)
    environment = {
        "SAGABUS_KAFKA": bootstrap, "SAGABUS_POSTGRES": own, "SAGABUS_RELAY_DELIVERY": delivery,
        "SAGABUS_OUTBOXES": json.dumps({"bench": dsn}), "SAGABUS_LOG_FORMAT": "json",
    }  # fmt: skip
    with tempfile.TemporaryFile() as log:
        relay = subprocess.Popen(  # noqa: ASYNC220  (a child that outlives many awaits)
            [sys.executable, "-m", "sagabus_relay"], env={**os.environ, **environment},
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while await count(database) == total:
                await pause(0.02)
            began, start = time.perf_counter(), await count(database)
            cpu = cpu_s(relay.pid)
            while await count(database):
                await pause(0.05)
            took = time.perf_counter() - began
            cpu = cpu_s(relay.pid) - cpu
            result = {
                "delivery": delivery,
                "relay_rows_per_s": start / took,
                "relay_cpu_us_per_row": cpu / start * 1e6,
                "insert_floor_rows_per_s": insert_rate,
                "kafka_floor_records_per_s": floor,
                "low_load": await low_load(database, bootstrap, name),
                "idle": await idling(database, relay.pid),
            }
        finally:
            relay.terminate()
            relay.wait(20)
    await database.close()
    return result


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 40_000
    with LocalStack("relay-rate") as opened:
        opened.start()
        for kind, key in (("fenced", "relay_rps"), ("transactional", "relay_rps_transactional")):
            found = asyncio.run(main(opened, wanted, kind))
            floor = float(str(found.pop("kafka_floor_records_per_s")))
            keep({key: beside(float(str(found.pop("relay_rows_per_s"))), floor, **found)})
