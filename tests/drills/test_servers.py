"""Postgres, Kafka, and both at once crash under load and come back."""

import asyncio

import pytest

from sagabus_testkit.faults import hold

from .support import Site

pytestmark = pytest.mark.drill
AWAY_S = 6.0


async def test_postgres_crashes(site: Site) -> None:
    async def crash() -> None:
        await asyncio.to_thread(site.stack.postgres.kill)
        await hold(AWAY_S)
        await asyncio.to_thread(site.stack.postgres.start)
        await hold(AWAY_S)
        await asyncio.to_thread(site.stack.postgres.stop, "immediate")
        await asyncio.to_thread(site.stack.postgres.start)

    await site.drill("postgres-restart", crash)


async def test_kafka_crashes(site: Site) -> None:
    async def crash() -> None:
        await asyncio.to_thread(site.stack.kafka.kill)
        await hold(AWAY_S)
        await asyncio.to_thread(site.stack.kafka.start)

    await site.drill("kafka-restart", crash)


async def test_both_crash_at_once(site: Site) -> None:
    async def crash() -> None:
        servers = (site.stack.kafka, site.stack.postgres)
        for server in servers:
            await asyncio.to_thread(server.kill)
        await hold(AWAY_S)
        for server in servers:
            await asyncio.to_thread(server.start)

    await site.drill("both-restart", crash)
