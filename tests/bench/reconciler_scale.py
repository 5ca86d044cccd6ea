"""What it costs to prove that none of a million sagas stands still.

Run it: `python -m tests.bench.reconciler_scale [sagas]`. Every saga is unfinished and has stood
still for a day, the dearest case: each one is read and proved. Asserts nothing.
"""

import asyncio
import json
import secrets
import statistics
import sys
import time
from pathlib import Path

import asyncpg
from prometheus_client import CollectorRegistry
from tests.bench.relay_rate import cpu_s
from tests.bench.report import keep
from tests.integration.orchestrator.support import Rig, open_rig, order, prepare

from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.reconciler import JOB, Reconciler, ReconcilerPolicy
from sagabus_testkit import LocalStack

PAGE = ReconcilerPolicy().page
COPIES = """
insert into saga (id, tenant, workflow, business_key, definition_scope, definition_version,
                  definition_digest, status, control, revision, armed_at_ms, snapshot_schema,
                  snapshot, journal_head, start_id, created_at, updated_at)
select k.id, tenant, workflow, k.id::text, definition_scope, definition_version, definition_digest,
       status, control, revision, armed_at_ms, snapshot_schema,
       convert_to(replace(convert_from(snapshot, 'UTF8'), saga.id::text, k.id::text), 'UTF8'),
       journal_head, start_id, created_at, updated_at - interval '1 day'
from saga, (select gen_random_uuid() as id from generate_series(1, $1::int)) as k
where business_key = 'ORD-1'
"""


async def fill(rig: Rig, sagas: int) -> None:
    """Copy one waiting saga, a part at a time: one statement would keep all in memory."""
    slow = order(2)
    slow["steps"]["reserve"]["execute"]["timeout_ms"] = 86_400_000  # type: ignore[index,call-overload]  # JSON
    await rig.publish(slow)
    await rig.process(rig.start_record())
    async with rig.database.connection() as conn:
        await conn.execute("set synchronous_commit = off")
        for part in range(0, sagas, 50_000):
            await conn.execute(COPIES, min(50_000, sagas - part), timeout=600)
        await conn.execute("vacuum analyze saga", timeout=600)


async def backends(conn: asyncpg.Connection) -> dict[int, float]:
    """Return the CPU seconds of every backend of this database."""
    found = await conn.fetch(
        "select pid from pg_stat_activity where datname = current_database() and pid <> $1",
        conn.get_server_pid(),
    )
    return _cpu_of([row["pid"] for row in found])


def _cpu_of(pids: list[int]) -> dict[int, float]:
    return {pid: cpu_s(pid) for pid in pids if Path(f"/proc/{pid}").exists()}


async def whole_round(rig: Rig, dsn: str) -> dict[str, object]:
    """Look at every page once, without the pauses in between."""
    observer = await asyncpg.connect(dsn)
    policy = ReconcilerPolicy(page=PAGE, tick_ms=0, round_ms=3_600_000)
    reconciling = Reconciler(rig.database, rig.handler, UpkeepEvents(CollectorRegistry()), policy)
    await rig.run(f"update upkeep_job set due_at = 'epoch' where name = '{JOB}'")
    server, cpu = await backends(observer), time.process_time()
    pages: list[float] = []
    began = time.perf_counter()
    while True:
        page = time.perf_counter()
        if not await reconciling.tick():
            break
        pages.append((time.perf_counter() - page) * 1000)
    took, cpu = time.perf_counter() - began, time.process_time() - cpu
    after = await backends(observer)
    spent = sum(seconds - server.get(pid, 0.0) for pid, seconds in after.items())
    report = await observer.fetchval(f"select report from upkeep_job where name = '{JOB}'")
    await observer.close()
    pages.sort()
    return {
        "sagas": json.loads(report)["checked"],
        "findings": json.loads(report)["findings"],
        "pages": len(pages),
        "page_ms": {
            "median": round(statistics.median(pages), 2),
            "p99": round(pages[int(len(pages) * 0.99)], 2),
        },
        "round_s_without_pauses": round(took, 1),
        "round_s_as_paced": round(len(pages) * ReconcilerPolicy().tick_ms / 1000),
        "cpu_us_per_saga": round(cpu / len(pages) / PAGE * 1e6, 1),
        "postgres_cpu_us_per_saga": round(spent / len(pages) / PAGE * 1e6, 1),
    }


async def main(stack: LocalStack, sagas: int) -> dict[str, object]:
    dsn = stack.postgres.create_database(f"reconciler_{secrets.token_hex(3)}")
    await prepare(dsn)
    rig = await open_rig(dsn)
    try:
        await fill(rig, sagas)
        return {"first": await whole_round(rig, dsn), "again": await whole_round(rig, dsn)}
    finally:
        await rig.database.close()


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with LocalStack("reconciler-scale") as opened:
        opened.start()
        keep({"reconciler": asyncio.run(main(opened, wanted))})
