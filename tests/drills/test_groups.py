"""Consumers lose what they own: frozen past every lease, in a storm of rebalances, topics grow."""

import asyncio

import pytest

from sagabus_testkit.faults import add_partitions, hold, rebalance_storm
from sagabus_testkit.orders import consumer_groups
from sagabus_testkit.system import PARTICIPANTS

from .support import Site

pytestmark = pytest.mark.drill
VICTIMS = ("relay", "timer", "payment", "orchestrator")
REPLICAS = dict.fromkeys(VICTIMS, 2)
FROZEN_S = 13.0
"""Past the lease of a relay (3 s), of a worker (5 s), and the session of a group member (10 s)."""
STORM_S = 20.0


async def test_owners_are_frozen_past_their_leases_and_revived(site: Site) -> None:
    async def freeze() -> None:
        for suffix in ("", "-2"):
            frozen = [f"{name}{suffix}" for name in VICTIMS]
            for name in frozen:
                await asyncio.to_thread(site.system.pause, name)
            await hold(FROZEN_S)
            for name in frozen:
                await asyncio.to_thread(site.system.resume, name)

    await site.drill("frozen-past-lease", freeze)


async def test_members_join_and_leave_every_second(site: Site) -> None:
    async def storm() -> None:
        groups = consumer_groups(site.system)
        joined = await rebalance_storm(site.system.connection, groups, seconds=STORM_S)
        assert joined >= len(groups) * 3

    await site.drill("rebalance-storm", storm)


async def test_topics_grow_under_load(site: Site) -> None:
    async def grow() -> None:
        names = [spec.name for spec in site.system.topics.catalogue(PARTICIPANTS)]
        await add_partitions(site.system.connection, names, 7)

    await site.drill("partitions-added", grow)
