"""How many three-step sagas per second the whole system ends, and what each of them costs.

`python -m tests.bench --only saga` measures it. Starts are fed so that always about `IN_FLIGHT`
sagas are under way. The rate counts everything between the first start and the last ending.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import asyncpg
from tests.bench.clerk import NAME, STEPS
from tests.bench.gauges import Gauges, Reading
from tests.bench.pausing import pause
from tests.bench.unit import TENANT, WORKFLOW, Bench, start_of

from sagabus_bus import Publisher
from sagabus_core import ids
from sagabus_messages import OutboxRow, Stamp, Start, encode, source_of

__all__ = ["RateRun", "sagas_per_s"]

CHUNK, IN_FLIGHT, LOOK_S = 250, 1_500, 0.25
ENDED = (
    "select count(*) filter (where status = 'COMPLETED') as completed,"
    " count(*) filter (where status in ('COMPENSATED', 'MANUAL_INTERVENTION')) as others"
    " from saga where created_at >= $1"
)


@dataclass(slots=True)
class RateRun:
    """What a run saw."""

    sagas: int
    spent: Reading
    samples: list[tuple[float, int]] = field(default_factory=list)

    @property
    def per_s(self) -> float:
        """The rate from the first start that is sent to the last ending that is seen."""
        return self.sagas / self.samples[-1][0]


def encoded(topic: str, key: str, count: int) -> list[OutboxRow]:
    """Return start records, made before the clock runs: a load generator is no part of it."""
    rows = []
    for number in range(count):
        wanted = start_of(key, number)
        saga = ids.saga_id(TENANT, WORKFLOW, wanted.business_key)
        body = Start(
            tenant=TENANT,
            workflow=WORKFLOW,
            business_key=wanted.business_key,
            payload=wanted.payload,
        )
        stamp = Stamp(source_of("bench"), int(time.time() * 1000))
        rows.append(encode(body, topic, stamp, ce_id=f"start-{saga}"))
    return rows


async def sagas_per_s(bench: Bench, sagas: int) -> RateRun:
    """Run so many sagas to their end and return rate and costs."""
    gauges = Gauges(bench.stack, bench.system)
    await gauges.prepare()
    publisher = Publisher(bench.system.connection)
    conn = await bench.connect("orchestrator")
    topic = bench.system.topics.start
    try:
        await _drive(conn, publisher, encoded(topic, f"warm{secrets.token_hex(3)}", 500))
        rows = encoded(topic, f"run{secrets.token_hex(3)}", sagas)
        before = await gauges.read()
        samples = await _drive(conn, publisher, rows)
        await pause(1.0)  # Postgres counts a transaction up to a second after it
        spent = await gauges.read() - before
        await _check_effects(bench, conn)
    finally:
        await publisher.close()
        await conn.close()
    return RateRun(sagas, spent, samples)


async def _check_effects(bench: Bench, conn: asyncpg.Connection) -> None:
    """Raise unless every step of every saga has written exactly once."""
    # Copies that fill the table (`saga_size`) have done nothing.
    wanted = len(STEPS) * await conn.fetchval(
        "select count(*) from saga where business_key not like 'copy-%'"
    )
    clerk = await bench.connect(NAME)
    try:
        found = await clerk.fetchval("select count(*) from entry")
    finally:
        await clerk.close()
    if found != wanted:
        raise RuntimeError(f"{found} effects, {wanted} wanted")


async def _drive(
    conn: asyncpg.Connection,
    publisher: Publisher,
    rows: Sequence[OutboxRow],
) -> list[tuple[float, int]]:
    """Feed starts, wait for all endings; returns how many had ended by when."""
    since = await conn.fetchval("select clock_timestamp()")
    sent, began, samples = 0, time.perf_counter(), [(0.0, 0)]
    while samples[-1][1] < len(rows):
        while sent < len(rows) and sent - samples[-1][1] < IN_FLIGHT:
            await publisher.publish(rows[sent : sent + CHUNK])
            sent += CHUNK
        await pause(LOOK_S)
        found = await conn.fetchrow(ENDED, since)
        assert found is not None
        if found["others"]:
            raise RuntimeError(f"{found['others']} sagas did not complete")
        samples.append((time.perf_counter() - began, found["completed"]))
        if samples[-1][0] > 60 + len(rows) / 10:
            raise RuntimeError(f"only {samples[-1][1]} of {len(rows)} sagas ended in time")
    return samples
