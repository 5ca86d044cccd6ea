"""What bells cost writers where a flush is slow and many outboxes share a server.

Run it: `python -m tests.bench.relay_bells [outboxes] [flush_ms] [commits_per_s]`. Every outbox has
a writer with one small commit at a time, all of them together at `commits_per_s`; the server is
made to wait `flush_ms` before each flush (`commit_delay`). Once with bells, once without; the time
of a commit counts from when it was due. Asserts nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import asyncpg
from tests.bench.pausing import pause
from tests.bench.relay_rate import HEADERS
from tests.bench.report import keep
from tests.bench.saga_latency import percentile

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_messages.models import Kind
from sagabus_messages.record import OutboxRow
from sagabus_messages.topics import TopicSpec
from sagabus_relay import COMPONENTS
from sagabus_store import SHARED, Database, DatabaseOptions, migrate, outbox
from sagabus_testkit import LocalStack

WARM_S: Final = 3.0
SECONDS: Final = 10.0


async def write(database: Database, topic: str, per_s: float, share: float) -> list[float]:
    """Commit a row at each due moment, one at a time; returns how long after it, in ms."""
    began, took = time.perf_counter() + share / per_s, []
    for number in range(int((WARM_S + SECONDS) * per_s)):
        due = began + number / per_s
        await pause(due - time.perf_counter())
        async with database.transaction() as connection:
            await outbox.append_locked(
                connection, [OutboxRow(topic, b"%d" % number, HEADERS, b"{}")]
            )
        if number >= WARM_S * per_s:
            took.append((time.perf_counter() - due) * 1000)
    return took


@asynccontextmanager
async def relaying(environment: dict[str, str]) -> AsyncIterator[None]:
    """Run a relay for as long as the block."""
    with tempfile.TemporaryFile() as log:
        relay = subprocess.Popen(  # noqa: ASYNC220  (a child that outlives many awaits)
            [sys.executable, "-m", "sagabus_relay"],
            env={**os.environ, **environment},
            stdout=log,
            stderr=log,
        )
        try:
            yield
        finally:
            relay.terminate()
            relay.wait(20)


async def slow_down(dsn: str, flush_ms: float) -> None:
    """Make every flush of the server wait."""
    conn = await asyncpg.connect(dsn)
    await conn.execute(f"alter system set commit_delay = {int(flush_ms * 1000)}")
    await conn.execute("alter system set commit_siblings = 0")
    await conn.execute("select pg_reload_conf()")
    await conn.close()


async def main(
    stack: LocalStack, outboxes: int, flush_ms: float, per_s: float, *, bell: bool
) -> dict[str, float]:
    """Return the times of the writers' commits."""
    name = f"bells{secrets.token_hex(3)}"
    own = stack.postgres.create_database(f"{name}_r")
    await migrate(own, list(COMPONENTS))
    places = {f"o{n}": stack.postgres.create_database(f"{name}_{n}") for n in range(outboxes)}
    async with TopicAdmin(KafkaConnection(stack.kafka.bootstrap, "bench")) as admin:
        await admin.ensure([TopicSpec(name, Kind.COMMAND, None, False, 6, 3_600_000, 1_000_000)])
    environment = {
        "SAGABUS_KAFKA": stack.kafka.bootstrap,
        "SAGABUS_POSTGRES": own,
        "SAGABUS_OUTBOXES": json.dumps(places),
        "SAGABUS_RELAY_BELL": str(bell).lower(),
    }
    async with AsyncExitStack() as opened:
        databases = []
        for dsn in places.values():
            await migrate(dsn, [SHARED])
            database = Database(dsn, DatabaseOptions(application_name="bench", pool_size=1))
            await database.open()
            opened.push_async_callback(database.close)
            databases.append(database)
        await slow_down(own, flush_ms)
        await opened.enter_async_context(relaying(environment))
        each = per_s / outboxes
        took = await asyncio.gather(
            *(write(base, name, each, n / outboxes) for n, base in enumerate(databases))
        )
    late = [ms for one in took for ms in one]
    return {f"p{int(s * 100)}_ms": round(percentile(late, s), 1) for s in (0.5, 0.99)}


if __name__ == "__main__":
    count, wait_ms, rate = (*map(float, sys.argv[1:]), *(8.0, 5.0, 180.0)[len(sys.argv) - 1 :])
    found: dict[str, object] = {"outboxes": count, "flush_ms": wait_ms, "commits_per_s": rate}
    for rings in (True, False):
        with LocalStack("relay-bells") as started:
            started.start()
            run = main(started, int(count), wait_ms, rate, bell=rings)
            found["with_bells" if rings else "without"] = asyncio.run(run)
    keep({"relay_bells": found})
