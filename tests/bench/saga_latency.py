"""How long one three-step saga takes at a moderate pace, as its client sees it."""

from __future__ import annotations

import asyncio
import secrets
import time

from tests.bench.pausing import pause
from tests.bench.unit import Bench, start_of

from sagabus_client import Outcome, SagabusClient

__all__ = ["PER_S", "percentile", "saga_latencies_ms"]

PER_S = 20


def percentile(values: list[float], share: float) -> float:
    """Return the value below which `share` of all values lie."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


async def saga_latencies_ms(bench: Bench, seconds: int) -> list[float]:
    """Start `PER_S` sagas per second, evenly; return each time from start to news of its end."""
    started: dict[str, float] = {}
    found: list[float] = []
    total = PER_S * seconds
    done = asyncio.Event()

    def heard(outcome: Outcome) -> None:
        if outcome.is_terminal:
            found.append((time.perf_counter() - started[outcome.handle.business_key]) * 1000)
            if len(found) == total:
                done.set()

    key = f"calm{secrets.token_hex(3)}"
    async with SagabusClient(
        bench.system.connection, bench.system.topics, name="bench", listener=heard
    ) as client:
        began = time.perf_counter()
        async with asyncio.TaskGroup() as sending, asyncio.timeout(seconds + 60):
            for number in range(total):
                await pause(began + number / PER_S - time.perf_counter())
                command = start_of(key, number)
                started[command.business_key] = time.perf_counter()
                sending.create_task(client.start(command))
            await done.wait()
    return found
