"""A relay with nothing to do sleeps, and wakes for whatever is committed."""

from sagabus_testkit import eventually

from .support import Bench, number, read, relaying, row

ASLEEP = (
    "pg_locks l join pg_stat_activity a using (pid)"
    " where l.locktype = 'advisory' and l.mode = 'ExclusiveLock'"
    " and a.application_name = 'sagabus-bell/orders' and a.datname = current_database()"
)


async def test_a_sleeping_relay_wakes_for_every_commit_and_survives_the_loss_of_its_bell(
    orders: Bench,
) -> None:
    async def asleep() -> bool:
        return await orders.count(ASLEEP) == 1

    async with relaying(orders.settings()):
        for n in range(3):
            await eventually(asleep, within=20)
            await orders.append([row(orders.topic, "k", n)])
            await eventually(orders.drained, within=20)
            async with orders.database.connection() as connection:
                await connection.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity"
                    " where application_name = 'sagabus-bell/orders'"
                    " and datname = current_database()"
                )
    assert [number(record) for record in await read(orders.stack, orders.topic)] == [0, 1, 2]
    assert await orders.count(ASLEEP) == 0


async def test_several_slots_share_no_bell(orders: Bench) -> None:
    async with relaying(orders.settings(relay_slots=2)):
        await orders.append([row(orders.topic, f"k{n}", n) for n in range(50)])
        await eventually(orders.drained, within=20)
        assert await orders.count(ASLEEP) == 0
