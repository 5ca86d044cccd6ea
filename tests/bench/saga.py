"""The whole system: sustained rate with its costs, and latency at a moderate pace."""

from __future__ import annotations

import json
from collections.abc import Mapping

import uvloop
from tests.bench.floors import latency_floor_ms, rate_floor
from tests.bench.report import OUT, beside
from tests.bench.saga_latency import PER_S, percentile, saga_latencies_ms
from tests.bench.saga_rate import RateRun, sagas_per_s
from tests.bench.unit import Bench

__all__ = ["measure"]


def measure(sagas: int, seconds: int) -> Mapping[str, object]:
    """Return `e2e_*` and what a saga costs."""
    with Bench.running() as bench:
        return uvloop.run(_measure(bench, sagas, seconds))


async def _measure(bench: Bench, sagas: int, seconds: int) -> dict[str, object]:
    found: dict[str, object] = {}
    if seconds:
        found |= await _latency(bench, seconds)
    if sagas:
        run = await sagas_per_s(bench, sagas)
        found |= await _rate(bench, run)
        statements = OUT.with_name("bench-statements.json")
        statements.write_text(json.dumps(run.spent.costliest(), indent=1) + "\n")
    return found


async def _rate(bench: Bench, run: RateRun) -> dict[str, object]:
    per_saga = run.spent.per(run.sagas)
    floor = await rate_floor(
        bench,
        wal_bytes=run.spent.totals["wal_bytes"] / run.sagas,
        records=float(str(per_saga["records"])),
    )
    return {
        "e2e_sagas_per_s": beside(run.per_s, floor, sagas=run.sagas),
        "e2e_per_saga": per_saga,
    }


async def _latency(bench: Bench, seconds: int) -> dict[str, object]:
    await saga_latencies_ms(bench, 3)  # warm
    took = await saga_latencies_ms(bench, seconds)
    floor = await latency_floor_ms(bench)
    return {
        f"e2e_latency_ms_{name}": beside(percentile(took, share), floor, sagas_per_s=PER_S)
        for name, share in (("p50", 0.5), ("p99", 0.99))
    }
