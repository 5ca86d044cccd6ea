"""The timer beside many pending wake-ups: lateness, a backlog that starves nobody, memory.

Run it: `python tests/bench/timer_rate.py [pending] [backlog]`. Prints JSON; asserts nothing.
`pending` (1,000,000) wake-ups wait for a day that does not come; beside them 500 become due each
second; then `backlog` (100,000) are due at once while 500 more become due each second.
"""

import asyncio
import os
import random
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.pausing import pause
from tests.bench.report import beside, keep

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_core.ids import saga_id
from sagabus_messages import Topics
from sagabus_store import Database, DatabaseOptions, migrate
from sagabus_testkit import LocalStack
from sagabus_timer import COMPONENTS

RATE, SECONDS, DAY_MS = 500, 10, 86_400_000
FIRED = (
    "with gone as (delete from outbox returning created_at, value)"
    " select (extract(epoch from created_at) * 1000)::bigint as fired,"
    " (extract(epoch from (convert_from(value, 'UTF8')::json->>'at')::timestamptz)"
    " * 1000)::bigint as due from gone"
)


async def preload(database: Database, name: str, due: list[int]) -> float:
    """Copy wake-ups into the table; returns rows per second."""
    now, began = await database.now_ms(), time.perf_counter()
    rows = [(saga_id("t", "w", f"{name}{n}"), 1, at, now, None) for n, at in enumerate(due)]
    async with database.connection() as connection:
        await connection.copy_records_to_table("wakeup", records=rows)
    return len(due) / (time.perf_counter() - began)


def spread(first: int, seconds: int) -> list[int]:
    return [first + random.randrange(seconds * 1_000) for _ in range(RATE * seconds)]


@dataclass
class Relay:
    """Carries wake-ups away, as the relay would, and notes how late each was."""

    database: Database
    late: list[tuple[int, int]] = field(default_factory=list)

    async def carry(self, count: int) -> None:
        while len(self.late) < count:
            async with self.database.connection() as connection:
                found = await connection.fetch(FIRED)
            self.late += [(r["due"], r["fired"] - r["due"]) for r in found]
            await pause(0.02)

    def lateness(self, since: int = 0) -> dict[str, int]:
        late = sorted(ms for due, ms in self.late if due >= since)
        return {
            "count": len(late),
            "least_ms": late[0],
            "p50_ms": late[len(late) // 2],
            "p99_ms": late[int(len(late) * 0.99)],
            "most_ms": late[-1],
        }


def peak_mb(pid: int) -> int:
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return int(peak) // 1024


async def commit_ms(database: Database) -> float:
    """Return the median of a durable commit: no timer can be earlier than its own."""
    took = []
    for _ in range(101):
        began = time.perf_counter()
        async with database.transaction() as connection:
            await connection.fetchval("select pg_current_xact_id()")
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


async def measure(database: Database, pid: int, backlog: int) -> dict[str, object]:
    first = await database.now_ms() + 2_000
    await preload(database, "calm", spread(first, SECONDS))
    calm = Relay(database)
    await calm.carry(RATE * SECONDS)

    now, busy = await database.now_ms(), Relay(database)
    began = time.perf_counter()
    # New ones become due before, while and after the backlog is worked off.
    await preload(database, "new", spread(now + 1_000, SECONDS))
    await preload(database, "backlog", [now - DAY_MS + n for n in range(backlog)])
    await busy.carry(backlog + RATE * SECONDS)
    return {
        "lateness": calm.lateness(),
        "backlog": backlog,
        "backlog_and_new_fired_per_s": (backlog + RATE * SECONDS) / (time.perf_counter() - began),
        "lateness_of_new_beside_backlog": busy.lateness(since=now),
        "timer_peak_memory_mb": peak_mb(pid),
    }


async def main(stack: LocalStack, pending: int, backlog: int) -> dict[str, object]:
    name = f"bench{secrets.token_hex(3)}"
    dsn, topics = stack.postgres.create_database(name), Topics(f"{name}.")
    await migrate(dsn, list(COMPONENTS))
    database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=2))
    await database.open()
    async with TopicAdmin(KafkaConnection(stack.kafka.bootstrap, "bench")) as admin:
        await admin.ensure(topics.catalogue([], 3))
    far = await database.now_ms() + DAY_MS
    copied = await preload(database, "far", [far + n for n in range(pending)])
    async with database.connection() as connection:
        # What has been pending for long is on disk: its writing out is not to be measured.
        await connection.execute("vacuum (analyze) wakeup")
        await connection.execute("checkpoint")
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
            # A first wake-up fires: the timer is up, and its start is not measured.
            await preload(database, "up", [await database.now_ms()])
            await Relay(database).carry(1)
            result = await measure(database, timer.pid, backlog)
        finally:
            timer.terminate()
            timer.wait(20)
    least = await commit_ms(database)
    await database.close()
    told = {"pending": pending, "due_per_s": RATE, "copied_rows_per_s": copied}
    return {**told, "commit_ms": least, **result}


if __name__ == "__main__":
    pending = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    backlog = int(sys.argv[2]) if len(sys.argv) > 2 else 100_000
    with LocalStack("timer-rate") as opened:
        opened.start()
        found = asyncio.run(main(opened, pending, backlog))
        late, least = found["lateness"]["p99_ms"], found.pop("commit_ms")  # type: ignore[index]
        keep({"timer_lateness_ms_p99": beside(late, float(str(least)), **found)})
