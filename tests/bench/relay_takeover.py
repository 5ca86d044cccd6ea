"""How long nothing of a slot flows after its owner is killed with -9.

Run it: `python -m tests.bench.relay_takeover [kills]`. From the signal to the first record that
was committed after it and that the heir has published. Asserts nothing.
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
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from aiokafka import AIOKafkaConsumer
from tests.bench.pausing import pause
from tests.bench.relay_rate import HEADERS, append
from tests.bench.report import keep

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_messages.models import Kind
from sagabus_messages.record import OutboxRow
from sagabus_messages.topics import TopicSpec
from sagabus_relay import COMPONENTS
from sagabus_store import SHARED, Database, DatabaseOptions, migrate
from sagabus_testkit import LocalStack

BETWEEN_ROWS_S = 0.02


class Relay:
    """A relay process with a log of its own."""

    def __init__(self, environment: dict[str, str], log: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "sagabus_relay"],
                env={**os.environ, **environment}, stdout=output, stderr=output,
            )  # fmt: skip

    async def until(self, event: str) -> None:
        while event not in self.log.read_text():
            await pause(0.05)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(10)


@asynccontextmanager
async def writing(database: Database, topic: str) -> AsyncIterator[None]:
    """Commit a row every few milliseconds; its value is when that was."""

    async def write() -> None:
        while True:
            at = b"%r" % time.perf_counter()
            await append(database, [OutboxRow(topic, b"key", HEADERS, at)])
            await pause(BETWEEN_ROWS_S)

    task = asyncio.create_task(write())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})


async def first_after(consumer: AIOKafkaConsumer, at: float) -> float:
    """Return when the first record arrived that was written after `at`."""
    while True:
        record = await consumer.getone()
        if float(record.value or b"0") > at:
            return time.perf_counter()


async def measure(
    consumer: AIOKafkaConsumer, environment: dict[str, str], folder: Path, kills: int
) -> list[float]:
    owner = Relay(environment, folder / "0")
    await owner.until("relay.slot_taken")
    taken: list[float] = []
    try:
        for number in range(1, kills + 1):
            heir = Relay(environment, folder / str(number))
            await heir.until("service.ready")
            await first_after(consumer, time.perf_counter())
            # At any moment between two renewals.
            await pause(secrets.randbelow(600) / 1000)
            killed_at = time.perf_counter()
            owner.kill()
            owner = heir
            taken.append(await first_after(consumer, killed_at) - killed_at)
    finally:
        owner.kill()
    return taken


async def main(stack: LocalStack, kills: int) -> dict[str, object]:
    name = f"takeover{secrets.token_hex(3)}"
    bootstrap = stack.kafka.bootstrap
    own, dsn = stack.postgres.create_database(f"{name}_r"), stack.postgres.create_database(name)
    await migrate(own, list(COMPONENTS))
    await migrate(dsn, [SHARED])
    database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=2))
    await database.open()
    async with TopicAdmin(KafkaConnection(bootstrap, "bench")) as admin:
        await admin.ensure([TopicSpec(name, Kind.COMMAND, None, False, 1, 3_600_000, 1_000_000)])
    consumer = AIOKafkaConsumer(name, bootstrap_servers=bootstrap, fetch_max_wait_ms=5)
    await consumer.start()
    environment = {
        "SAGABUS_KAFKA": bootstrap, "SAGABUS_POSTGRES": own, "SAGABUS_LOG_FORMAT": "json",
        "SAGABUS_OUTBOXES": json.dumps({"bench": dsn}),
    }  # fmt: skip
    try:
        with tempfile.TemporaryDirectory() as folder:
            async with writing(database, name):
                taken = await measure(consumer, environment, Path(folder), kills)
    finally:
        await consumer.stop()
        await database.close()
    return {
        "kills": kills,
        "median_s": round(statistics.median(taken), 2),
        "longest_s": round(max(taken), 2),
        "bound_s": 5.0,
    }


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    with LocalStack("relay-takeover") as opened:
        opened.start()
        keep({"relay_takeover": asyncio.run(main(opened, wanted))})
