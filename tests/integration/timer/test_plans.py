"""A table of wake-ups that was analysed while empty: the plans of that moment must scale too."""

from sagabus_store import QUEUE_PLANNER, Database, DatabaseOptions, Queries

from .support import Bench

ADD = (
    "insert into wakeup (saga_id, generation, due_at_ms, requested_at_ms)"
    " select gen_random_uuid(), 1, 1, 1 from generate_series(1, 3000)"
)


async def test_each_wakeup_is_looked_up_by_its_key_whatever_the_table_was_when_analysed(
    timer: Bench,
) -> None:
    queries = Queries("sagabus_timer", "sql/wakeups.sql")
    options = DatabaseOptions("timer", pool_size=1, server_settings=QUEUE_PLANNER)
    database = Database(timer.dsn, options)
    await database.open()
    try:
        async with database.connection() as connection:
            await connection.execute(ADD)
            await connection.execute("delete from wakeup")
            await connection.execute("analyze wakeup")
            await connection.execute("set plan_cache_mode = force_generic_plan")
            for name in ("take_oldest", "take_newest", "bury"):
                await connection.execute(f"prepare it as {queries[name]}")
                found = await connection.fetch("explain execute it (1, 500)")
                await connection.execute("deallocate it")
                plan = "\n".join(line[0] for line in found)
                assert "Join Filter" not in plan, plan
                assert "Seq Scan" not in plan, plan
    finally:
        await database.close()
