"""The unit of work on a real Postgres: all or nothing, and errors that mean something."""

import asyncio
import time

import pytest

from sagabus_runtime import failpoints
from sagabus_store import (
    CommitUnknown,
    Connection,
    Database,
    DatabaseOptions,
    StoreRejected,
    StoreUnavailable,
)

pytestmark = pytest.mark.stack


@pytest.fixture
async def rows(observer: Connection) -> Connection:
    await observer.execute("create table thing (id int primary key, note text)")
    return observer


async def count(observer: Connection) -> int:
    return int(await observer.fetchval("select count(*) from thing"))


async def test_a_block_that_ends_well_is_durable_and_one_that_fails_is_not(
    db: Database, rows: Connection
) -> None:
    async with db.transaction() as conn:
        await conn.execute("insert into thing values (1)")
    with pytest.raises(KeyError):
        async with db.transaction() as conn:
            await conn.execute("insert into thing values (2)")
            raise KeyError("bug")
    assert await count(rows) == 1


async def test_data_that_postgres_refuses_is_rejected(db: Database, rows: Connection) -> None:
    await rows.execute("insert into thing values (1)")
    for argument, sqlstate in ((1, "23505"), (2**40, "22000")):
        with pytest.raises(StoreRejected) as caught:
            async with db.transaction() as conn:
                await conn.execute("insert into thing values ($1)", argument)
        assert caught.value.sqlstate == sqlstate
    for text, sqlstate in (("a\0b", "22021"), ("\ud800", "22000")):
        with pytest.raises(StoreRejected) as caught:
            async with db.transaction() as conn:
                await conn.execute("insert into thing values (3, $1)", text)
        assert caught.value.sqlstate == sqlstate


async def test_a_schema_that_lags_behind_the_code_is_an_outage(db: Database) -> None:
    with pytest.raises(StoreUnavailable):
        async with db.transaction() as conn:
            await conn.execute("select * from not_yet_there")


async def test_a_killed_backend_is_an_outage_and_the_pool_recovers(
    db: Database, rows: Connection
) -> None:
    with pytest.raises(StoreUnavailable) as caught:
        async with db.transaction() as conn:
            await conn.execute("insert into thing values (1)")
            await rows.execute("select pg_terminate_backend($1)", conn.get_server_pid())
            await conn.execute("insert into thing values (2)")
    assert type(caught.value) is StoreUnavailable
    async with db.transaction() as conn:
        await conn.execute("insert into thing values (3)")
    assert await rows.fetchval("select array_agg(id) from thing") == [3]


async def test_a_backend_killed_before_the_commit_leaves_the_outcome_unknown(
    db: Database, rows: Connection
) -> None:
    with pytest.raises(CommitUnknown):
        async with db.transaction() as conn:
            await conn.execute("insert into thing values (1)")
            await rows.execute("select pg_terminate_backend($1)", conn.get_server_pid())
    assert await count(rows) == 0


@pytest.mark.parametrize(
    ("spec", "error", "kept"),
    [
        ("store.before-commit=error:08006", StoreUnavailable, 0),
        ("store.before-commit=error:22003", StoreRejected, 0),
        ("store.commit=error:connection", CommitUnknown, 0),
        ("store.after-commit=error:connection", StoreUnavailable, 1),
    ],
)
async def test_failpoints_fail_as_the_real_thing_does(
    db: Database, rows: Connection, spec: str, error: type[Exception], kept: int
) -> None:
    with failpoints.armed(spec), pytest.raises(error) as caught:
        async with db.transaction() as conn:
            await conn.execute("insert into thing values (1)")
    assert type(caught.value) is error
    assert await count(rows) == kept


async def test_a_commit_that_is_refused_is_known(db: Database, rows: Connection) -> None:
    await rows.execute("alter table thing add parent int references thing deferrable")
    with pytest.raises(StoreRejected, match="23503"):
        async with db.transaction() as conn:
            await conn.execute("set constraints all deferred")
            await conn.execute("insert into thing values (1, '', 77)")
    assert await count(rows) == 0


async def test_a_cancelled_block_leaves_nothing_behind(db: Database, rows: Connection) -> None:
    reached = asyncio.Event()

    async def work() -> None:
        async with db.transaction() as conn:
            await conn.execute("insert into thing values (1)")
            reached.set()
            await conn.execute("select pg_sleep(30)")

    task = asyncio.create_task(work())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with db.transaction() as conn:
        assert not await conn.fetchval("select count(*) from thing")


async def test_a_lock_that_is_not_to_be_had_in_time_is_an_outage(dsn: str) -> None:
    impatient = Database(dsn, DatabaseOptions("impatient", lock_timeout_ms=50))
    await impatient.open()
    async with impatient.transaction() as holder:
        await holder.execute("select pg_advisory_xact_lock(1)")
        with pytest.raises(StoreUnavailable, match="55P03"):
            async with impatient.transaction() as conn:
                await conn.execute("select pg_advisory_xact_lock(1)")
    await impatient.close()


async def test_the_clock_is_the_databases_and_moves_within_a_transaction(
    db: Database, observer: Connection
) -> None:
    assert abs(await db.now_ms() - time.time() * 1000) < 60_000
    async with db.transaction() as conn:
        settings = {
            name: await conn.fetchval("select current_setting($1)", name)
            for name in ("application_name", "timezone", "jit")
        }
    assert settings == {"application_name": "store-tests", "timezone": "UTC", "jit": "off"}


async def test_readiness_says_why(db: Database) -> None:
    assert await db.problem() is None
    await db.close()
    assert await db.problem() == "Postgres: the database is not open"
    nowhere = Database("postgresql://u:p@127.0.0.1:1/x", DatabaseOptions("nowhere"))
    with pytest.raises(StoreUnavailable):
        await nowhere.open()
