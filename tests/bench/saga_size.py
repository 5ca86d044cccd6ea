"""Whether a saga costs the same beside a million others: the same load before and after filling.

`python -m tests.bench --only size [--instances N] [--sagas N]`. The others have ended within the
last 20 days, as in a deployment whose archive leaves a month. The server copies them itself, in
batches; then they are vacuumed and checkpointed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import asyncpg
import uvloop
from tests.bench.saga_rate import RateRun, sagas_per_s
from tests.bench.unit import Bench

__all__ = ["SAGAS", "measure"]

BATCH: Final = 50_000
FIRST: Final = 10_000
SAGAS: Final = 4_000
"""The load of each of both runs, at most: enough to read the CPU of a saga."""

# Copies of one ended saga under new ids.
FILL = """
with model as (select * from saga where status = 'COMPLETED' limit 1),
copies as (
    select gen_random_uuid() as id, n,
           clock_timestamp() - n::float8 / 1e6 * interval '20 days' as at
    from generate_series($1::bigint, $2::bigint) as n
),
keys as (
    insert into saga_key select c.id, k.definition_scope, k.definition_version,
        k.definition_digest, k.request_digest, k.field_digests, null
    from copies c, model m join saga_key k on k.id = m.id
)
insert into saga (id, tenant, workflow, business_key, definition_scope, definition_version,
                  definition_digest, status, control, revision, armed_at_ms, snapshot_schema,
                  snapshot, journal_head, start_id, created_at, updated_at, ended_at)
select c.id, m.tenant, m.workflow, 'copy-' || c.n, m.definition_scope, m.definition_version,
       m.definition_digest, m.status, m.control, m.revision, m.armed_at_ms, m.snapshot_schema,
       m.snapshot, m.journal_head, m.start_id, c.at, c.at, c.at
from copies c, model m
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
            "per_saga": {str(run.instances): run.rate.spent.per(sagas) for run in (few, many)},
        }
    }


class _Run:
    """One load beside so many instances."""

    def __init__(self, instances: int, rate: RateRun) -> None:
        self.instances = instances
        self.rate = rate

    @property
    def cpu_ms(self) -> float:
        """CPU of one saga over all processes."""
        return sum(self.rate.spent.cpu.values()) * 1000 / self.rate.sagas


async def _beside(bench: Bench, instances: int, sagas: int) -> _Run:
    conn = await bench.connect("orchestrator")
    try:
        await _fill(conn, instances)
    finally:
        await conn.close()
    return _Run(instances, await sagas_per_s(bench, sagas))


async def _fill(conn: asyncpg.Connection, instances: int) -> None:
    present = await conn.fetchval("select count(*) from saga")
    for first in range(present, instances, BATCH):
        await conn.execute(FILL, first, min(first + BATCH, instances) - 1)
    for table in ("saga", "saga_key"):
        await conn.execute(f"vacuum (analyze) {table}")
    await conn.execute("checkpoint")
