"""The network between services and servers fails: cut, stalled, lost in the middle of a commit."""

import asyncio

import pytest

from sagabus_testkit import eventually
from sagabus_testkit.faults import CommitFate, FaultyNetwork, hold
from sagabus_testkit.proxy import Flow

from .support import Site

pytestmark = pytest.mark.drill
COMMITS = 60
KAFKA_STALLS_S = 12.0
"""Past the session of a group member, 10 s."""
POSTGRES_STALLS_S = 8.0
BETWEEN_S = 5.0


@pytest.mark.parametrize("fate", list(CommitFate))
async def test_connections_are_cut_during_commit(
    remote_site: Site, network: FaultyNetwork, fate: CommitFate
) -> None:
    async def cut() -> None:
        before = network.postgres.commits_cut
        await asyncio.to_thread(network.postgres.cut_commits, fate, COMMITS)
        await eventually(lambda: network.postgres.commits_cut == before + COMMITS, within=60)

    await remote_site.drill(f"commit-{fate.name}".lower(), cut)


async def test_connections_are_cut(remote_site: Site, network: FaultyNetwork) -> None:
    async def cut() -> None:
        for _ in range(5):
            await asyncio.to_thread(network.kafka.cut)
            await asyncio.to_thread(network.postgres.cut)
            await hold(2)

    await remote_site.drill("connections-cut", cut)


@pytest.mark.parametrize("flow", ["to_server", "to_client"])
async def test_connections_stall(remote_site: Site, network: FaultyNetwork, flow: Flow) -> None:
    async def stall() -> None:
        await asyncio.to_thread(network.kafka.stall, flow)
        await hold(KAFKA_STALLS_S)
        await asyncio.to_thread(network.kafka.restore)
        await hold(BETWEEN_S)
        await asyncio.to_thread(network.postgres.stall, flow)
        await hold(POSTGRES_STALLS_S)
        await asyncio.to_thread(network.postgres.restore)

    await remote_site.drill(f"stalled-{flow.replace('_', '-')}", stall)
