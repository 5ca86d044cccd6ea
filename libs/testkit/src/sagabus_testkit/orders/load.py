"""Start orders at a pace, do harm in the middle, wait until all have ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sagabus_client import Outcome, OutcomePending, SagabusClient, SagaHandle
from sagabus_testkit.orders.reconcile import Ending
from sagabus_testkit.orders.scenarios import Order
from sagabus_testkit.system import System

__all__ = ["STUCK", "Finished", "Pace", "run_orders"]

STUCK: Final = "STUCK"
"""What is said of an order that had no outcome in time."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast orders are started and how long their outcomes are waited for.

    What an outage of Kafka held up is started right after it, so that the rate holds on average;
    no chunk may wait longer than `start_within_s`.
    """

    chunk: int = 20
    every_s: float = 0.5
    within_s: float = 180.0
    start_within_s: float = 120.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How one order ended; `latency_ms` from its start to its outcome."""

    order: Order
    status: str
    reason_code: str | None
    latency_ms: int
    started_at_ms: int = 0

    @property
    def is_as_expected(self) -> bool:
        """Whether it ended as its scenario demands."""
        return self.status == self.order.scenario.expected

    @property
    def ending(self) -> Ending:
        """What the books are compared with."""
        return Ending(self.order, self.status)


async def run_orders(
    system: System,
    orders: Sequence[Order],
    pace: Pace,
    *,
    on_outcome: Callable[[int], None] = lambda _: None,
    harm: tuple[int, Callable[[], Awaitable[None]]] | None = None,
) -> list[Finished]:
    """Start every order and wait for all outcomes; order of the answer as of `orders`.

    `on_outcome` hears how many have ended. `harm`: once so many have ended, do this, while the
    others go on. What has no outcome in time is STUCK.
    """
    ended = 0
    harmed = asyncio.Event()

    def heard(outcome: Outcome) -> None:
        nonlocal ended
        if outcome.is_settled:
            ended += 1
            on_outcome(ended)
            if harm is not None and ended >= harm[0]:
                harmed.set()

    async def do_harm() -> None:
        if harm is not None:
            await harmed.wait()
            await harm[1]()

    async with SagabusClient(
        system.connection, system.topics, name="orders", listener=heard
    ) as client:
        harming = asyncio.create_task(do_harm())
        handles = await _start(client, orders, pace)
        deadline = time.monotonic() + pace.within_s
        pairs = zip(orders, handles, strict=True)
        finished = await asyncio.gather(*(_finish(client, o, h, deadline) for o, h in pairs))
        if harm is not None and not harmed.is_set():
            harming.cancel()
        await asyncio.gather(harming, return_exceptions=not harmed.is_set())
    return list(finished)


async def _start(client: SagabusClient, orders: Sequence[Order], pace: Pace) -> list[SagaHandle]:
    handles: list[SagaHandle] = []
    begun = time.monotonic()
    for number, first in enumerate(range(0, len(orders), pace.chunk), 1):
        chunk = [order.command for order in orders[first : first + pace.chunk]]
        handles += await client.start_all(chunk, timeout_s=pace.start_within_s)
        await asyncio.sleep(max(0.0, begun + number * pace.every_s - time.monotonic()))
    return handles


async def _finish(
    client: SagabusClient, order: Order, handle: SagaHandle, deadline: float
) -> Finished:
    try:
        outcome = await client.wait(handle, timeout_s=max(0.0, deadline - time.monotonic()))
    except OutcomePending:
        waited_ms = int(time.time() * 1000) - handle.started_at_ms
        return Finished(order, STUCK, None, waited_ms, handle.started_at_ms)
    latency_ms = max(0, outcome.occurred_at_ms - handle.started_at_ms)
    return Finished(
        order, str(outcome.status), outcome.reason_code, latency_ms, handle.started_at_ms
    )
