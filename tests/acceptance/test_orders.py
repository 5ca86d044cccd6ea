"""Orders of every scenario end as they must, whatever is killed or taken away in the middle."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from sagabus_testkit import eventually
from sagabus_testkit.orders import SCENARIOS, Finished, Pace, make_orders, reconcile, run_orders

from .support import Shop

AWAY_S = 20.0
ALL = len(SCENARIOS)
KNOWN: list[Finished] = []
"""Every order of this session: the stock is reconciled as a whole."""


async def run(
    shop: Shop, prefix: str, count: int, harm: Callable[[], Awaitable[None]], after: int
) -> list[Finished]:
    orders = make_orders(count, seed=7, prefix=prefix)
    letters = await shop.dead_letters()
    finished = await run_orders(shop.system, orders, Pace(), harm=(after, harm))
    KNOWN.extend(finished)
    assert await reconcile(shop.system, [f.ending for f in KNOWN]) == []
    assert await shop.dead_letters() == letters
    return finished


def unlike(finished: list[Finished], also: str | None = None) -> list[tuple[str, str, str]]:
    return [
        (f.order.key, f.order.scenario.name, f.status)
        for f in finished
        if f.status not in {f.order.scenario.expected, also}
    ]


async def test_orders_end_as_they_must_although_services_are_killed(shop: Shop) -> None:
    async def murder() -> None:
        for name in ("shipping", "orchestrator", "relay", "timer"):
            await asyncio.to_thread(shop.system.kill, name)
        for name in ("shipping", "orchestrator", "relay", "timer"):
            shop.system.spawn(name)
        for name in ("shipping", "orchestrator", "relay", "timer"):
            await asyncio.to_thread(shop.system.restart, name)

    assert unlike(await run(shop, "KILL", 40, murder, after=8)) == []


@pytest.mark.parametrize("server", ["postgres", "kafka"])
async def test_trap_13_orders_converge_after_a_server_was_away(shop: Shop, server: str) -> None:
    victim = getattr(shop.stack, server)
    running = asyncio.get_running_loop()

    async def take_away() -> None:
        away_until = running.time() + AWAY_S
        await asyncio.to_thread(victim.stop)
        await eventually(lambda: running.time() >= away_until, within=AWAY_S + 5)
        await asyncio.to_thread(victim.start)

    finished = await run(shop, server.upper(), ALL + 8, take_away, after=3)

    # A step that nobody could do before its time-out is cancelled or fenced: an outage may turn
    # an order back, but never half.
    assert unlike(finished, also="COMPENSATED") == []
