"""Whether a saga costs the same beside a million others: the same load before and after filling.

`python -m tests.bench --only size [--instances N] [--sagas N]`. The others are copies of one saga
that ended, each with its key and its journal, written by COPY (`copies`), as if all had begun since
the month did: so the journal's partition that is written to is full as well. Then the tables are
vacuumed, with fresh statistics, and a checkpoint is made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

import asyncpg
import uvloop
from tests.bench.copies import Fields, Model, instant
from tests.bench.saga_rate import RateRun, sagas_per_s
from tests.bench.unit import Bench

__all__ = ["SAGAS", "measure"]

FIRST: Final = 10_000
SAGAS: Final = 4_000
"""The load of each of both runs, at most: enough to read the CPU of a saga."""

# Which columns hold the saga's id, and what a copy is given of its own besides.
TABLES: Final = {"saga_key": "id", "saga": "id", "journal": "saga_id"}
# Columns that Postgres fills in itself.
OWN: Final = ("seq", "written_by")
COLUMNS: Final = """
select attname::text from pg_attribute
where attrelid = $1::text::regclass and attnum > 0 and not attisdropped
  and attname <> all($2::text[])
order by attnum
"""


def measure(instances: int, sagas: int) -> Mapping[str, object]:
    """Return what a saga costs beside `FIRST` others and beside `instances`."""
    with Bench.running() as bench:
        return uvloop.run(_measure(bench, instances, sagas))


async def _measure(bench: Bench, instances: int, sagas: int) -> dict[str, object]:
    await sagas_per_s(bench, 500)  # one to copy, and everything warm
    few = await _beside(bench, FIRST, sagas)
    many = await _beside(bench, instances, sagas)
    return {
        "e2e_cpu_ms_by_instances": {
            **{str(run.instances): round(run.cpu_ms, 3) for run in (few, many)},
            "ratio": round(many.cpu_ms / few.cpu_ms, 3),
            "sagas_per_s": {str(run.instances): round(run.rate.per_s, 1) for run in (few, many)},
            "filled_in_s": round(many.filled_s, 1),
            "per_saga": {str(run.instances): run.rate.spent.per(sagas) for run in (few, many)},
        }
    }


class _Run:
    """One load beside so many instances."""

    def __init__(self, instances: int, filled_s: float, rate: RateRun) -> None:
        self.instances = instances
        self.filled_s = filled_s
        self.rate = rate

    @property
    def cpu_ms(self) -> float:
        """CPU of one saga over all processes."""
        return sum(self.rate.spent.cpu.values()) * 1000 / self.rate.sagas


async def _beside(bench: Bench, instances: int, sagas: int) -> _Run:
    conn = await bench.connect("orchestrator")
    try:
        filled_s = await _fill(conn, instances)
    finally:
        await conn.close()
    return _Run(instances, filled_s, await sagas_per_s(bench, sagas))


async def _fill(conn: asyncpg.Connection, instances: int) -> float:
    """Return the seconds that it took."""
    began = time.perf_counter()
    present = await conn.fetchval("select count(*) from saga")
    model = await conn.fetchval(
        "select id from saga where status = 'COMPLETED' and business_key not like 'copy-%' limit 1"
    )
    ids = os.urandom(16 * max(0, instances - present))
    for table, key in TABLES.items():
        columns = [row[0] for row in await conn.fetch(COLUMNS, table, OWN)]
        rows = await Model.read(conn, table, columns, f"{key} = '{model}'")
        await rows.write(conn, _changes(key, ids, present))
        await conn.execute(f"vacuum (analyze) {table}")
    await conn.execute("checkpoint")
    return time.perf_counter() - began


def _changes(key: str, ids: bytes, first: int) -> Iterator[Fields]:
    """Yield what each copy has of its own: ids in no order, times in the order of writing."""
    now = datetime.now(UTC)
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    count = len(ids) // 16
    for number in range(count):
        at = instant(month + (now - month) * ((number + 1) / (count + 1)))
        times = dict.fromkeys(("created_at", "updated_at", "ended_at", "recorded_at"), at)
        name = f"copy-{first + number}".encode()
        yield {key: ids[16 * number : 16 * number + 16], "business_key": name, **times}
