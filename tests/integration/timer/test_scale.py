"""Many pending wake-ups, clocks that are set, and the trace that a wake-up carries on."""

import time
from asyncio import Event
from typing import Any

import pytest

from sagabus_core.ids import saga_id
from sagabus_messages import OutboxRow
from sagabus_runtime import new_registry
from sagabus_store import QUEUE_PLANNER, Database, DatabaseOptions, Queries
from sagabus_timer import table
from sagabus_timer.events import TimerEvents
from sagabus_timer.firing import Firing, FiringPolicy
from sagabus_timer.requests import Arming
from sagabus_timer.timekeeper import Timekeeper

from .support import Bench, saga, timing

HOUR_MS = 3_600_000
PENDING, DUE = 20_000, 30
SQL = Queries("sagabus_timer", "sql/wakeups.sql")


async def preload(timer: Bench, now_ms: int) -> None:
    """Copy pending wake-ups straight into the table, and a few that are due."""
    rows = [
        (saga_id("t", "w", str(n)), 1, now_ms + (n - DUE) * 10 + 5, now_ms, None)
        for n in range(PENDING)
    ]
    async with timer.database.connection() as connection:
        await connection.copy_records_to_table("wakeup", records=rows)


@pytest.mark.parametrize("analyzed", [False, True])
async def test_a_look_reads_what_is_due_and_not_what_is_pending(
    timer: Bench, analyzed: bool
) -> None:
    now = await timer.now_ms()
    await preload(timer, now)
    options = DatabaseOptions("sagabus-timer", pool_size=1, server_settings=QUEUE_PLANNER)
    own = Database(timer.dsn, options)
    await own.open()
    async with own.connection() as connection:
        if analyzed:
            await connection.execute("analyze wakeup")
        for name, arguments in {
            "take_oldest": (now, 500),
            "take_newest": (now, 500),
            "next_due": (),
        }.items():
            transaction = connection.transaction()
            await transaction.start()
            explain = f"explain (analyze, timing off, summary off) {SQL[name]}"
            plan = "\n".join(r[0] for r in await connection.fetch(explain, *arguments))
            await transaction.rollback()
            assert "wakeup_due" in plan, plan
            assert "Seq Scan" not in plan, plan
            assert f"rows={DUE} " in plan or name == "next_due", plan
    await own.close()


class Clocks:
    """A database clock that can be set, and a monotonic one that is turned by hand."""

    def __init__(self, timer: Bench) -> None:
        self.step_ms = 0
        self.passed_ms = 0.0
        self._timer = timer
        self._began = time.monotonic() * 1000

    def monotonic(self) -> float:
        return self._began + self.passed_ms

    async def sighting(self) -> int:
        return await self._timer.now_ms() + self.step_ms + int(self.passed_ms)


async def test_a_clock_that_is_set_fires_nothing_early_and_freezes_nothing(timer: Bench) -> None:
    clocks, events = Clocks(timer), TimerEvents(new_registry())
    keeper = Timekeeper(clocks.sighting, events, clocks.monotonic)
    firing = Firing(timer.database, timer.topics, keeper, Event(), FiringPolicy(), events)
    now = await keeper.now_ms()
    armings = [
        Arming(saga(1), 1, now + 5_000, now),
        Arming(saga(2), 1, now + HOUR_MS // 2, now),
    ]
    async with timer.database.transaction() as connection:
        await table.arm(connection, sorted(armings, key=lambda a: a.saga_id))

    clocks.step_ms = HOUR_MS
    for _ in range(3):
        clocks.passed_ms += 1_100
        assert await firing.fire() == 0, "set forward: nothing may fire early"
    clocks.step_ms = -HOUR_MS
    for _ in range(3):
        clocks.passed_ms += 1_100
        await firing.fire()
    assert await timer.fired() == [(saga(1), 1)], "set back: time goes on"


async def test_a_wakeup_continues_the_trace_of_its_request(timer: Bench) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    now = await timer.now_ms()
    plain = await timer.request(1, 1, now)
    traced = await timer.request(2, 1, now)
    headers = (*traced.headers, ("traceparent", trace.encode()))
    async with timing(timer.settings()):
        await timer.send([plain, OutboxRow(traced.topic, traced.key, headers, traced.value)])
        await timer.until_fired(2)
    told: dict[str, Any] = {e.meta.saga_id: e.meta.traceparent for e in await timer.wakeups()}
    assert told == {saga(1): None, saga(2): trace}
