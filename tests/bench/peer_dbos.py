"""The unit on DBOS Transact, in an environment of its own: see `peer`. Not imported by anything.

`python peer_dbos.py SYSTEM_DSN DATA_DSN THREADS WORKFLOWS rate|calm [tuned]` prints one JSON
object. `rate`: as fast as THREADS can call; `calm`: 20 a second, for the latency.
"""

# mypy: ignore-errors

from __future__ import annotations

import json
import sys
import threading
import time
import uuid
from collections.abc import Callable
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


PER_S = 20
"""The pace of the latency, as in `saga_latency`."""


def order_of(number: int) -> dict[str, object]:
    return {"account": f"A-{number % 1000}", "cents": number, "note": "x" * 250}


def one(number: int, began: float | None = None) -> float:
    """Return the milliseconds from `began`, else from now, to the result."""
    began = began or time.perf_counter()
    DBOS.start_workflow(three_steps, order_of(number)).get_result()
    return (time.perf_counter() - began) * 1000


def direct(number: int, began: float | None = None) -> float:
    began = began or time.perf_counter()
    three_steps(order_of(number))
    return (time.perf_counter() - began) * 1000


def calm(executor: ThreadPoolExecutor, call: Callable[..., float], workflows: int) -> list[float]:
    """Start workflows evenly; the time of each counts from its start, waiting for a thread too."""
    never, first, waiting = threading.Event(), time.perf_counter(), []
    for number in range(workflows):
        never.wait(max(0.0, first + number / PER_S - time.perf_counter()))
        waiting.append(executor.submit(call, number, time.perf_counter()))
    return [done.result() for done in waiting]


def spread(took: list[float]) -> dict[str, float]:
    took = sorted(took)
    return {
        "latency_ms_p50": round(took[len(took) // 2], 1),
        "latency_ms_p99": round(took[min(len(took) - 1, int(len(took) * 0.99))], 1),
    }


def measured(
    executor: ThreadPoolExecutor, call: Callable[..., float], workflows: int, paced: bool
) -> dict[str, float]:
    if paced:
        return spread(calm(executor, call, workflows))
    began, cpu = time.perf_counter(), time.process_time()
    took = list(executor.map(call, range(workflows)))
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    return {
        "workflows_per_s": round(workflows / seconds, 1),
        "python_cpu_ms": round(cpu * 1000 / workflows, 3),
        **{f"full_{name}": value for name, value in spread(took).items()},
    }


def main() -> None:
    system, threads, workflows = sys.argv[1], int(sys.argv[3]), int(sys.argv[4])
    paced, tuned = sys.argv[5] == "calm", sys.argv[6:] == ["tuned"]
    DATA.open(wait=True)
    config = {"name": "bench", "system_database_url": system, "log_level": "ERROR"}
    if tuned:
        config |= {"sys_db_pool_size": threads + 4}
    DBOS(config=config)
    DBOS.launch()
    call = direct if tuned else one
    with ThreadPoolExecutor(threads) as executor:
        list(executor.map(call, range(200)))  # warm
        found = measured(executor, call, workflows, paced)
    sys.stdout.write(json.dumps({**found, "threads": threads}) + "\n")
    sys.stdout.flush()
    DBOS.destroy()


if __name__ == "__main__":
    main()
