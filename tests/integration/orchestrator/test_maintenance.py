"""The hourly round of a replica, on a clock that the test moves and the partitions of Postgres."""

import asyncio
from dataclasses import dataclass, field
from datetime import date, timedelta

import pytest

from sagabus_orchestrator.upkeep.maintenance import HOUR_MS, Maintenance
from sagabus_runtime import Pulse
from sagabus_store import StoreUnavailable
from sagabus_store.inbox import DAYS_AHEAD, day_of

from .support import WINDOW, Rig

DAYS = 3
PARTITIONS = """
    select coalesce(array_agg(to_date(substring(c.relname from '\\d+$'), $2) order by 1), '{}')
    from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = $1::text::regclass and c.relname ~ '\\d+$'
"""


@dataclass
class World:
    """A replica over some days: each pause of its loop is an hour, told before it passes."""

    rig: Rig
    at_ms: int
    rounds: int = 0
    forgotten: int = 0
    fails_at: set[int] = field(default_factory=set)
    stop: asyncio.Event = field(default_factory=asyncio.Event)

    async def now_ms(self) -> int:
        return self.at_ms

    async def forget(self) -> None:
        self.forgotten += 1
        if self.forgotten in self.fails_at:
            raise StoreUnavailable("store_unavailable", "an outage")

    def pulse(self) -> Pulse:
        return _Hours(self)

    async def days(self, table: str, pattern: str) -> list[date]:
        found = await self.rig.value(PARTITIONS, table, pattern)
        assert isinstance(found, list)
        return found

    async def check(self) -> None:
        """What must be true after every round."""
        today = day_of(self.at_ms)
        first, last = today - timedelta(WINDOW.days + 1), today + timedelta(DAYS_AHEAD)
        days = await self.days("inbox", "YYYYMMDD")
        assert {first + timedelta(n) for n in range((last - first).days + 1)} <= set(days)
        assert min(days) == first
        month = (today + timedelta(60)).replace(day=1)
        assert month in await self.days("journal", "YYYYMM")


class _Hours(Pulse):
    def __init__(self, world: World) -> None:
        super().__init__("maintenance", HOUR_MS, world.stop)
        self._world = world

    async def pause(self, ms: float) -> bool:
        world = self._world
        assert ms == HOUR_MS
        await world.check()
        world.rounds += 1
        world.at_ms += HOUR_MS
        if world.rounds == DAYS * 24:
            world.stop.set()
        return self.stopping


async def test_the_partitions_of_every_hour_are_there_and_old_ones_go(rig: Rig) -> None:
    world = World(rig, await rig.database.now_ms(), fails_at={30})
    oldest = day_of(world.at_ms) - timedelta(WINDOW.days + 1)
    maintenance = Maintenance(rig.database, WINDOW, world.forget, world.now_ms)
    with pytest.raises(StoreUnavailable):
        await maintenance.run(world.pulse())
    await world.check()  # what is to be forgotten comes behind what is needed
    await maintenance.run(world.pulse())
    assert (world.rounds, world.forgotten) == (DAYS * 24, DAYS * 24 + 1)
    assert oldest not in await world.days("inbox", "YYYYMMDD")


async def test_without_a_clock_it_is_that_of_the_database(rig: Rig) -> None:
    world = World(rig, await rig.database.now_ms())
    await Maintenance(rig.database, WINDOW, world.forget).round()
    assert day_of(world.at_ms) in await world.days("inbox", "YYYYMMDD")
    assert world.forgotten == 1
