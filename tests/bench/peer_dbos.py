"""The unit on DBOS Transact, in an environment of its own: see `peer`. Not imported by anything.

`python peer_dbos.py SYSTEM_DSN DATA_DSN THREADS WORKFLOWS [tuned]` prints one JSON object.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

from dbos import DBOS
from psycopg_pool import ConnectionPool

INSERT = "insert into entry (id, account, cents) values (%s, %s, %s)"
DATA = ConnectionPool(sys.argv[2], min_size=4, max_size=16, open=False)


def write(order: dict[str, object]) -> None:
    with DATA.connection() as conn:
        conn.execute(INSERT, (uuid.uuid4(), order["account"], order["cents"]))


@DBOS.step()
def reserve(order: dict[str, object]) -> None:
    write(order)


@DBOS.step()
def charge(order: dict[str, object]) -> None:
    write(order)


@DBOS.step()
def ship(order: dict[str, object]) -> None:
    write(order)


@DBOS.workflow()
def three_steps(order: dict[str, object]) -> None:
    reserve(order)
    charge(order)
    ship(order)


def one(number: int) -> float:
    order = {"account": f"A-{number % 1000}", "cents": number, "note": "x" * 250}
    began = time.perf_counter()
    DBOS.start_workflow(three_steps, order).get_result()
    return (time.perf_counter() - began) * 1000


def direct(number: int) -> float:
    order = {"account": f"A-{number % 1000}", "cents": number, "note": "x" * 250}
    began = time.perf_counter()
    three_steps(order)
    return (time.perf_counter() - began) * 1000


def main() -> None:
    system, threads, workflows = sys.argv[1], int(sys.argv[3]), int(sys.argv[4])
    tuned = sys.argv[5:] == ["tuned"]
    DATA.open(wait=True)
    config = {"name": "bench", "system_database_url": system, "log_level": "ERROR"}
    if tuned:
        config |= {"sys_db_pool_size": threads + 4}
    DBOS(config=config)
    DBOS.launch()
    call = direct if tuned else one
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(call, range(200)))  # warm
        began, cpu = time.perf_counter(), time.process_time()
        took = sorted(executor.map(call, range(workflows)))
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    found = {
        "workflows_per_s": round(workflows / seconds, 1),
        "latency_ms_p50": round(took[len(took) // 2], 1),
        "latency_ms_p99": round(took[int(len(took) * 0.99)], 1),
        "python_cpu_ms": round(cpu * 1000 / workflows, 3),
        "threads": threads,
    }
    sys.stdout.write(json.dumps(found) + "\n")
    sys.stdout.flush()
    DBOS.destroy()


if __name__ == "__main__":
    main()
