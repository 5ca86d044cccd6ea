"""`make bench-peer`: the same unit of work on DBOS Transact and here, one after the other.

The peer is installed into `build/peer`, for this alone. It runs with its defaults (200 clients) and
at the best setting that was found (8 threads of one process that call workflows directly); the data
go to a Postgres with the same settings. First 20 workflows a second, for the latency, then as many
as go. Prints both with the ratios and keeps them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import venv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import asyncpg
import uvloop
from tests.bench import clerk, saga
from tests.bench.gauges import cpu_of_server
from tests.bench.report import OUT, keep
from tests.bench.saga_latency import PER_S

from sagabus_testkit import LocalStack

__all__ = ["main"]

PEER: Final = "dbos==3.4.0"
HOME: Final = OUT.with_name("peer")
SCRIPT: Final = Path(__file__).with_name("peer_dbos.py")


LATENCIES: Final = ("latency_ms_p50", "latency_ms_p99")
WARM: Final = 200
"""Workflows that the script runs before it measures."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How the peer is run."""

    name: str
    threads: int
    more: tuple[str, ...] = ()


RUNS: Final = (Setting("defaults", 200), Setting("tuned", 8, ("tuned",)))


def main() -> int:
    """Measure the peer, then this system, and compare."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.peer", description=__doc__)
    parser.add_argument("--workflows", type=int, default=2_000)
    parser.add_argument("--sagas", type=int, default=6_000)
    parser.add_argument("--seconds", type=int, default=10, help="of the latency at 20 a second")
    wanted = parser.parse_args()
    python = _installed()
    calm = PER_S * wanted.seconds
    peer = {run.name: _run(python, run, wanted.workflows, calm) for run in RUNS}
    ours = saga.measure(wanted.sagas, wanted.seconds)
    compared = {"here": _here(ours), **peer, "ratios": _ratios(ours, peer)}
    keep({**ours, "peer": compared})
    return 0


def _installed() -> Path:
    python = HOME / "bin" / "python"
    if not python.exists():
        venv.create(HOME, with_pip=True)
        install = [str(python), "-m", "pip", "install", "-q", PEER, "psycopg-pool"]
        subprocess.run(install, check=True)
    return python


def _run(python: Path, run: Setting, workflows: int, calm: int) -> dict[str, Any]:
    with LocalStack(f"peer-{run.name}") as stack:
        system = stack.postgres.create_database("peer_system")
        data = stack.postgres.create_database("peer_data")
        uvloop.run(_make_table(data))
        call = partial(_call, python, system, data, run)
        latency = call(calm, "calm")
        before = uvloop.run(_counted(stack))
        rate = call(workflows, "rate")
        spent = uvloop.run(_counted(stack))
        uvloop.run(_check_effects(data, workflows + calm + 2 * WARM))
    per = workflows + WARM
    return {
        **latency,
        **rate,
        "postgres_cpu_ms": round((spent[0] - before[0]) * 1000 / per, 3),
        "transactions": round((spent[1] - before[1]) / per, 2),
    }


def _call(
    python: Path, system: str, data: str, run: Setting, workflows: int, kind: str
) -> dict[str, Any]:
    argv = [str(python), str(SCRIPT), system, data, str(run.threads), str(workflows), kind]
    done = subprocess.run([*argv, *run.more], check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


async def _make_table(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    await conn.execute(clerk.TABLE)
    await conn.close()


async def _check_effects(dsn: str, workflows: int) -> None:
    """Raise unless every step of every workflow has written once."""
    conn = await asyncpg.connect(dsn)
    found = await conn.fetchval("select count(*) from entry")
    await conn.close()
    if found != len(clerk.STEPS) * workflows:
        raise RuntimeError(f"{found} effects of {workflows} workflows")


async def _counted(stack: LocalStack) -> tuple[float, int]:
    """Return CPU seconds of the server and transactions so far."""
    conn = await asyncpg.connect(stack.postgres.dsn)
    try:
        cpu = sum((await cpu_of_server(conn)).values())
        done = await conn.fetchval(
            "select sum(xact_commit)::bigint from pg_stat_database where datname like 'peer%'"
        )
    finally:
        await conn.close()
    return cpu, int(done or 0)


def _here(ours: Mapping[str, Any]) -> dict[str, object]:
    cost = ours["e2e_per_saga"]
    return {
        "sagas_per_s": ours["e2e_sagas_per_s"]["value"],
        **{name: ours[f"e2e_{name}"]["value"] for name in LATENCIES},
        "cpu_ms": cost["cpu_ms"]["all"],
        "transactions": cost["transactions"],
    }


def _ratios(ours: Mapping[str, Any], peer: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
    rate, cost = ours["e2e_sagas_per_s"]["value"], ours["e2e_per_saga"]["cpu_ms"]["all"]
    return {
        name: {
            "rate": round(rate / each["workflows_per_s"], 2),
            "cpu": round(cost / (each["python_cpu_ms"] + each["postgres_cpu_ms"]), 2),
            **{key: round(ours[f"e2e_{key}"]["value"] / each[key], 2) for key in LATENCIES},
        }
        for name, each in peer.items()
    }


if __name__ == "__main__":
    sys.exit(main())
