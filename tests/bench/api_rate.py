"""The HTTP API at 100 requests/s: latency of get, start and a bare answer, and CPU per request.

Run it: `python -m tests.bench --only api`, or `python -m tests.bench.api_rate [seconds]`. Prints
JSON; asserts nothing. The bar of the project: p99 of get and of start below 50 ms. The floor is
what the same server takes to say that there is nothing at a path: no caller is known, nothing is
read, no commit is made.
"""

import asyncio
import json
import secrets
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
from tests.bench.gauges import cpu_s
from tests.bench.pausing import pause
from tests.bench.report import beside, keep

from sagabus_bus import TopicAdmin
from sagabus_testkit import LocalStack
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.system import API, SERVICES, Servers, System

RATE, CLIENTS, BURST = 100, 64, 2_000
ORDER = {
    "sku": "widget-1",
    "quantity": 1,
    "card": "visa-1",
    "amount_cents": 1200,
    "address": "1 Main Street",
}
Call = Callable[[int], Awaitable[httpx.Response]]


@dataclass
class Caller:
    """Sends requests to the API of a system."""

    client: httpx.AsyncClient
    run: str

    async def start(self, number: int) -> httpx.Response:
        key = f"{self.run}-{number}"
        payload = {
            "content_type": "application/json",
            "schema_id": "order.v1",
            "data": {"order": key, **ORDER},
        }
        body = {"tenant": "bench", "workflow": "order", "business_key": key, "payload": payload}
        return await self.client.post("/v1/sagas", json=body, headers={"idempotency-key": key})

    async def bare(self, number: int) -> httpx.Response:
        return await self.client.get(f"/v1/nothing/{number}")


async def at_rate(call: Call, seconds: int) -> dict[str, float]:
    """Send at a fixed rate, whatever the answers take; a request's time counts from when due."""
    took: list[float] = []
    failed = 0

    async def one(number: int, due_s: float) -> None:
        nonlocal failed
        response = await call(number)
        took.append((time.perf_counter() - due_s) * 1_000)
        failed += response.status_code >= 500

    began, tasks = time.perf_counter() + 0.1, []
    for number in range(RATE * seconds):
        due_s = began + number / RATE
        await pause(max(0.0, due_s - time.perf_counter()))
        tasks.append(asyncio.create_task(one(number, due_s)))
    await asyncio.gather(*tasks)
    took.sort()
    return {
        "requests_per_s": RATE,
        "p50_ms": round(took[len(took) // 2], 1),
        "p99_ms": round(took[int(len(took) * 0.99)], 1),
        "most_ms": round(took[-1], 1),
        "failed": failed,
    }


async def at_once(call: Call, count: int) -> float:
    """Return requests per second of many callers who send one after the other."""
    numbers = iter(range(count))

    async def work() -> None:
        for number in numbers:
            await call(number)

    began = time.perf_counter()
    await asyncio.gather(*(work() for _ in range(CLIENTS)))
    return count / (time.perf_counter() - began)


async def measure(system: System, key: str, seconds: int) -> Mapping[str, object]:
    """Return `api_p99_ms`, and under `api` all that was seen."""
    pid = system.pid("api") or 0
    limits = httpx.Limits(max_connections=CLIENTS, max_keepalive_connections=CLIENTS)
    rates: dict[str, Mapping[str, float]] = {}
    async with httpx.AsyncClient(
        base_url=system.api_url, headers={"x-api-key": key}, limits=limits, timeout=30
    ) as client:
        first = (await Caller(client, "warm").start(0)).json()["saga_id"]

        async def get(number: int) -> httpx.Response:
            del number
            return await client.get(f"/v1/sagas/{first}")

        caller = Caller(client, "rate")
        for name, call in (("bare", caller.bare), ("get", get), ("start", caller.start)):
            await at_rate(call, 1)  # connections are open, caches are warm
            before = cpu_s(pid)
            part = Caller(client, f"measured-{name}").start if name == "start" else call
            told = await at_rate(part, seconds)
            cpu_ms = (cpu_s(pid) - before) * 1_000 / (RATE * seconds)
            rates[name] = {**told, "api_cpu_ms": round(cpu_ms, 2)}
        at_once_per_s = {
            "starts_at_once_per_s": round(await at_once(Caller(client, "burst").start, BURST)),
            "bare_at_once_per_s": round(await at_once(caller.bare, BURST)),
        }
    return {"api_p99_ms": _worse(rates), "api": {**rates, **at_once_per_s}}


def _worse(rates: Mapping[str, Mapping[str, float]]) -> dict[str, object]:
    """Return the slower of start and get beside the bare answer."""
    p99_ms = {name: rates[name]["p99_ms"] for name in ("start", "get")}
    return beside(max(p99_ms.values()), rates["bare"]["p99_ms"], **p99_ms, requests_per_s=RATE)


async def make_topics(system: System) -> None:
    async with TopicAdmin(system.connection) as admin:
        await admin.ensure(system.topics.catalogue(["inventory", "payment", "shipping"], 4))


def main(seconds: int) -> Mapping[str, object]:
    """Run an orchestrator with its API, and nobody who would answer commands."""
    kinds = [*(kind for kind in SERVICES if kind.name == "orchestrator"), API]
    with LocalStack("bench-api") as stack:
        directory, name = stack.directory / "api", f"bench{secrets.token_hex(3)}"
        with System(Servers.of(stack), directory, name=name, kinds=kinds) as system:
            system.start()
            asyncio.run(make_topics(system))
            file = Path(directory) / "key"
            for words in (
                (
                    "keys",
                    "create",
                    "bench",
                    "--grant",
                    "admin",
                    "--all-tenants",
                    "--file",
                    str(file),
                ),
                ("definitions", "publish", str(DEFINITION), "--activate"),
            ):
                done = system.command(*words)
                if done.returncode != 0:
                    raise SystemExit(json.dumps({"failed": words, "said": done.stderr}))
            return asyncio.run(measure(system, file.read_text().strip(), seconds))


if __name__ == "__main__":
    keep(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
