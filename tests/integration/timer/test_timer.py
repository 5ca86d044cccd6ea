"""The timer on real servers: generations, late requests, restarts, replicas, backlogs."""

from asyncio import Event
from pathlib import Path

import pytest

from sagabus_bus import KafkaConnection
from sagabus_core.ids import wakeup_id
from sagabus_messages import Wakeup
from sagabus_runtime import failpoints, new_registry
from sagabus_store import Database, DatabaseOptions
from sagabus_testkit import eventually
from sagabus_testkit.faults import dismiss_members
from sagabus_timer import table
from sagabus_timer.events import TimerEvents
from sagabus_timer.firing import Firing, FiringPolicy
from sagabus_timer.housekeeping import DAY_MS, Housekeeping
from sagabus_timer.requests import Arming
from sagabus_timer.timekeeper import Timekeeper

from .support import Bench, saga, timer_process, timing

WINDOW_MS = 22 * DAY_MS


async def test_a_wakeup_is_written_when_due_and_not_before(timer: Bench) -> None:
    due_at_ms = await timer.now_ms() + 700
    async with timing(timer.settings()):
        await timer.arm(1, 1, due_at_ms)
        await timer.until_fired(1)
        assert await timer.now_ms() >= due_at_ms
    (envelope,) = await timer.wakeups()
    body = envelope.body
    assert isinstance(body, Wakeup)
    assert (body.saga_id, body.generation, body.at_ms) == (saga(1), 1, due_at_ms)
    assert body.fired_at_ms >= due_at_ms
    assert envelope.meta.ce_id == wakeup_id(saga(1), 1)
    assert await timer.row(1) == (1, None)


async def test_only_a_higher_generation_changes_a_row_and_a_null_disarms(timer: Bench) -> None:
    far = await timer.now_ms() + 3_600_000
    async with timing(timer.settings()):
        await timer.arm(1, 2, far)
        await timer.until(1, 2, far)
        await timer.arm(1, 1, far + 1)
        await timer.arm(1, 2, far + 2)
        await timer.arm(2, 1, far)
        await timer.until(2, 1, far)
        assert await timer.row(1) == (2, far)
        await timer.arm(1, 3, None)
        await timer.until(1, 3, None)
    assert await timer.fired() == []


async def test_a_late_older_request_does_not_arm_again_after_fired_or_disarmed(
    timer: Bench,
) -> None:
    now = await timer.now_ms()
    async with timing(timer.settings()):
        await timer.arm(1, 2, now)
        await timer.until_fired(1)
        await timer.arm(2, 5, None)
        await timer.until(2, 5, None)
        await timer.arm(1, 1, now)
        await timer.arm(1, 2, now)
        await timer.arm(2, 4, now)
        await timer.arm(3, 1, now)
        await timer.until_fired(2)
    assert await timer.fired() == [(saga(1), 2), (saga(3), 1)]
    assert (await timer.row(1), await timer.row(2)) == ((2, None), (5, None))


async def test_a_request_older_than_the_window_is_a_dead_letter(timer: Bench) -> None:
    now = await timer.now_ms()
    async with timing(timer.settings()):
        await timer.send([await timer.request(1, 1, now, now - WINDOW_MS - 1_000)])
        await timer.arm(2, 1, now)
        await timer.until_fired(1)
        letters = [r for r in await timer.written() if r.topic.endswith(".dlt")]
    assert [letter.header("sagabus-error-reason") for letter in letters] == [b"too_old"]
    assert await timer.row(1) is None


async def test_tombstones_go_after_the_window_and_armed_rows_never(timer: Bench) -> None:
    now = await timer.now_ms()
    old = now - WINDOW_MS - DAY_MS - 10_000
    armings = [
        Arming(saga(1), 1, None, old),
        Arming(saga(2), 1, now + 1_000_000, old),
        Arming(saga(3), 1, None, now),
    ]
    async with timer.database.transaction() as connection:
        await table.arm(connection, sorted(armings, key=lambda a: a.saga_id))
    events = TimerEvents(new_registry())
    keeper = Timekeeper(timer.database.now_ms, events)
    assert await Housekeeping(timer.database, keeper, WINDOW_MS, events).bury() == 1
    assert [await timer.row(n) is None for n in (1, 2, 3)] == [True, False, False]


@pytest.mark.parametrize("point", ["timer.after-take", "timer.before-fire-commit"])
async def test_trap_17_a_failure_while_firing_loses_nothing_and_fires_once(
    timer: Bench, point: str
) -> None:
    now = await timer.now_ms()
    with failpoints.armed(f"{point}=error:08006@2"):
        async with timing(timer.settings()):
            for n in range(20):
                await timer.arm(n, 1, now)
            await timer.until_fired(20)
    assert sorted(await timer.fired()) == sorted((saga(n), 1) for n in range(20))


@pytest.mark.parametrize(
    "point", ["timer.before-arm-commit", "timer.after-arm-commit", "timer.after-fire-commit"]
)
async def test_a_killed_timer_is_replaced_by_a_restart(
    timer: Bench, tmp_path: Path, point: str
) -> None:
    first = timer_process(timer, tmp_path / "first", failpoints=f"{point}=exit@1")
    try:
        now = await timer.now_ms()
        await timer.send([await timer.request(n, 1, now) for n in range(50)])
        await eventually(lambda: first.poll() is not None, within=30)
    finally:
        first.kill()
        first.wait(10)
    await dismiss_members(KafkaConnection(timer.stack.kafka.bootstrap, "test"), timer.group)
    async with timing(timer.settings()):
        await timer.until_fired(50, within=40)
    assert sorted(await timer.fired()) == sorted((saga(n), 1) for n in range(50))


async def test_two_replicas_fire_each_wakeup_once(timer: Bench) -> None:
    async with timing(timer.settings()), timing(timer.settings()):
        now = await timer.now_ms()
        await timer.send([await timer.request(n, 1, now + n % 500) for n in range(1_000)])
        await timer.until_fired(1_000, within=40)
    assert len(await timer.fired()) == 1_000
    assert len(set(await timer.fired())) == 1_000


class Overdue:
    """A table with a backlog, and a firing loop that is turned by hand."""

    def __init__(self, bench: Bench, bound: int) -> None:
        events = TimerEvents(new_registry())
        keeper = Timekeeper(bench.database.now_ms, events)
        policy = FiringPolicy(batch=100, outbox_bound=bound)
        self.bench = bench
        self.firing = Firing(bench.database, bench.topics, keeper, Event(), policy, events)

    async def arm(self, numbers: range, due_at_ms: int) -> None:
        armings = sorted(
            (Arming(saga(n), 1, due_at_ms + n, due_at_ms) for n in numbers), key=lambda a: a.saga_id
        )
        async with self.bench.database.transaction() as connection:
            await table.arm(connection, armings)


async def test_what_became_due_a_moment_ago_does_not_wait_for_a_backlog(timer: Bench) -> None:
    backlog = Overdue(timer, bound=100_000)
    now = await timer.now_ms()
    await backlog.arm(range(2_000), now - 60_000)
    await backlog.arm(range(5_000, 5_020), now - 6_000)
    assert await backlog.firing.fire() == 100
    fired = {saga_id for saga_id, _ in await timer.fired()}
    assert fired >= {saga(n) for n in range(5_000, 5_020)}, "the newest are served"
    assert fired >= {saga(n) for n in range(50)}, "and so are the oldest"
    for _ in range(25):
        await backlog.firing.fire()
    assert len(await timer.fired()) == 2_020


async def test_nothing_is_fired_while_the_relay_is_behind(timer: Bench) -> None:
    backlog = Overdue(timer, bound=150)
    await backlog.arm(range(500), await timer.now_ms() - 60_000)
    assert [await backlog.firing.fire() for _ in range(3)] == [100, 50, None]
    async with timer.database.connection() as connection:
        await connection.execute("delete from outbox")
    assert await backlog.firing.fire() == 100


async def test_an_outage_of_the_database_delays_and_loses_nothing(timer: Bench) -> None:
    async with timing(timer.settings()):
        now = await timer.now_ms()
        await timer.arm(1, 1, now)
        await timer.until_fired(1)
        killer = Database(timer.dsn, DatabaseOptions(application_name="killer", pool_size=1))
        await killer.open()
        async with killer.connection() as connection:
            await connection.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity"
                " where application_name = 'sagabus-timer'"
            )
        await killer.close()
        await timer.arm(2, 1, now)
        await timer.until_fired(2)
    assert sorted(await timer.fired()) == sorted([(saga(1), 1), (saga(2), 1)])
