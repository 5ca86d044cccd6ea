"""How late the timer is beside 100,000 pending wake-ups, and how fast it drains a backlog.

Run it: `python tests/bench/timer_rate.py [pending]`. Prints JSON; asserts nothing.
"""

import asyncio
import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from contextlib import suppress

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_core.ids import saga_id
from sagabus_messages import Topics
from sagabus_store import Database, DatabaseOptions, migrate
from sagabus_testkit import LocalStack
from sagabus_timer import COMPONENTS, table
from sagabus_timer.requests import Arming

RATE, SECONDS, BATCH = 500, 10, 2_000


async def wait(seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def arm(database: Database, armings: list[Arming]) -> None:
    for start in range(0, len(armings), BATCH):
        batch = sorted(armings[start : start + BATCH], key=lambda a: a.saga_id)
        async with database.transaction() as connection:
            await table.arm(connection, batch)


async def lateness(database: Database) -> list[int]:
    async with database.connection() as connection:
        found = await connection.fetch(
            "select (extract(epoch from created_at) * 1000)::bigint as fired,"
            " (extract(epoch from (convert_from(value, 'UTF8')::json->>'at')::timestamptz)"
            " * 1000)::bigint as due from outbox"
        )
    return sorted(record["fired"] - record["due"] for record in found)


async def count(database: Database, what: str) -> int:
    async with database.connection() as connection:
        return int(await connection.fetchval(f"select count(*) from {what}"))


async def main(stack: LocalStack, pending: int) -> dict[str, object]:
    name = f"bench{secrets.token_hex(3)}"
    dsn, topics = stack.postgres.create_database(name), Topics(f"{name}.")
    await migrate(dsn, list(COMPONENTS))
    database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=2))
    await database.open()
    async with TopicAdmin(KafkaConnection(stack.kafka.bootstrap, "bench")) as admin:
        await admin.ensure(topics.catalogue([], 3))
    now = await database.now_ms()
    far = [Arming(saga_id("t", "w", f"f{n}"), 1, now + 3_600_000 + n, now) for n in range(pending)]
    began = time.perf_counter()
    await arm(database, far)
    arm_rate = pending / (time.perf_counter() - began)
    first = await database.now_ms() + 10_000
    await arm(
        database,
        [
            Arming(saga_id("t", "w", f"n{n}"), 1, first + random.randrange(SECONDS * 1_000), now)
            for n in range(RATE * SECONDS)
        ],
    )
    environment = {
        "SAGABUS_KAFKA": stack.kafka.bootstrap, "SAGABUS_POSTGRES": dsn,
        "SAGABUS_TOPIC_PREFIX": f"{name}.",
    }  # fmt: skip
    with tempfile.TemporaryFile() as log:
        timer = subprocess.Popen(  # noqa: ASYNC220  (a child that outlives many awaits)
            [sys.executable, "-m", "sagabus_timer"], env={**os.environ, **environment},
            stdout=log, stderr=log,
        )  # fmt: skip
        try:
            while await count(database, "outbox") < RATE * SECONDS:
                await wait(0.2)
            late = await lateness(database)
            async with database.connection() as connection:
                await connection.execute("truncate outbox")
                began = time.perf_counter()
                await connection.execute(
                    "update wakeup set due_at_ms = due_at_ms - 7200000 where due_at_ms is not null"
                )
            carried = 0
            while carried < pending:
                async with database.connection() as connection:
                    carried += int((await connection.execute("delete from outbox")).split()[1])
                await wait(0.1)
            drained = pending / (time.perf_counter() - began)
        finally:
            timer.terminate()
            timer.wait(20)
    await database.close()
    return {
        "pending": pending, "due_per_s": RATE, "arm_rows_per_s": arm_rate,
        "lateness_p50_ms": late[len(late) // 2], "lateness_p99_ms": late[int(len(late) * 0.99)],
        "lateness_least_ms": late[0], "backlog_fired_per_s": drained,
    }  # fmt: skip


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with LocalStack("timer-rate") as opened:
        opened.start()
        print(json.dumps(asyncio.run(main(opened, wanted)), indent=1))  # noqa: T201
