"""Postgres, Kafka, and both at once crash under load and come back; a timer loses its rows."""

import asyncio

import pytest

from sagabus_testkit.faults import hold

from .support import Site

pytestmark = pytest.mark.drill
AWAY_S = 6.0
LOSE = """do $do$ begin
    create function lose() returns trigger language plpgsql as 'begin return null; end';
    create trigger lost before insert or update on wakeup for each row execute function lose();
    delete from wakeup;
end $do$"""
FIND = "do $do$ begin drop trigger lost on wakeup; drop function lose(); end $do$"
ARMED = "select count(*) from wakeup where due_at_ms is not null"
ALL_DUE_S = 25.0
"""Longer than the steps that nobody answers wait for their time-outs."""


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


async def test_trap_10_a_timer_that_loses_every_wakeup_stops_nothing(site: Site) -> None:
    """The sweep of the orchestrator decides in its place."""

    async def ask(query: str) -> object:
        name = f"{site.system.name}_timer"
        return await asyncio.to_thread(site.stack.postgres.ask, query, name)

    async def lose() -> None:
        assert await ask(ARMED)
        await ask(LOSE)
        await hold(ALL_DUE_S)
        assert await ask(ARMED) == 0
        await ask(FIND)

    await site.drill("wakeups-lost", lose)
