"""Migrations run once, in order, unedited, by one migrator; rights are as small as they can be."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path

import asyncpg
import pytest

from sagabus_messages.record import OutboxRow
from sagabus_store import (
    SHARED,
    Claim,
    Component,
    Database,
    DatabaseOptions,
    InboxWindow,
    MigrationError,
    StoreMisconfigured,
    StoreRejected,
    StoreUnavailable,
    describe_schema,
    inbox,
    migrate,
    outbox,
    require_current,
    roles,
)
from sagabus_testkit import eventually

pytestmark = pytest.mark.stack
Line = Callable[..., Component]


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Line:
    """Write the migration files of one component and return it."""
    package = f"line_{uuid.uuid4().hex}"
    folder = tmp_path / package
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(*texts: str) -> Component:
        for number, text in enumerate(texts, 1):
            (folder / f"{number:04d}_step.sql").write_text(text)
        return Component("mine", package, ".")

    return write


async def test_every_step_runs_once(empty_dsn: str, line: Line) -> None:
    mine = line("create table a (id int)", "alter table a add note text")
    applied = await migrate(empty_dsn, [SHARED, mine])
    assert applied[-2:] == ["mine/0001_step", "mine/0002_step"]
    assert await migrate(empty_dsn, [SHARED, mine]) == []
    longer = line("create table a (id int)", "alter table a add note text", "drop table a")
    assert await migrate(empty_dsn, [longer]) == ["mine/0003_step"]


async def test_two_migrators_at_once_do_the_work_once(empty_dsn: str, line: Line) -> None:
    mine = line("create table a (id int); select pg_sleep(0.2)")
    answers = await asyncio.gather(*(migrate(empty_dsn, [SHARED, mine]) for _ in range(3)))
    steps = len(SHARED.migrations) + 1
    assert sorted(len(answer) for answer in answers) == [0, 0, steps]


async def test_an_edited_step_is_refused(empty_dsn: str, line: Line) -> None:
    await migrate(empty_dsn, [line("create table a (id int)")])
    edited = line("create table a (id bigint)", "create table b (id int)")
    with pytest.raises(MigrationError, match="migration_edited"):
        await migrate(empty_dsn, [edited])
    conn = await asyncpg.connect(empty_dsn)
    assert await conn.fetchval("select to_regclass('b')") is None
    await conn.close()


async def test_a_failing_step_leaves_nothing_and_can_be_mended(empty_dsn: str, line: Line) -> None:
    with pytest.raises(StoreUnavailable):
        await migrate(empty_dsn, [line("create table a (id int); select nonsense")])
    assert await migrate(empty_dsn, [line("create table a (id int)")]) == ["mine/0001_step"]


async def test_a_service_refuses_to_start_before_its_migrations_and_runs_after_newer_ones(
    empty_dsn: str, line: Line
) -> None:
    conn = await asyncpg.connect(empty_dsn)
    old, new = line("create table a (id int)"), ["create table a (id int)", "select 1"]
    with pytest.raises(MigrationError, match=r"migrations_pending.*mine/0001_step"):
        await require_current(conn, [old])
    known = old.migrations
    await migrate(empty_dsn, [line(*new)])
    assert len(known) == 1
    await require_current(conn, [old])
    await conn.close()


ONLINE = "-- no transaction\n-- Why.\ncreate unique index concurrently a_by_id\n    on a (id);\n"


async def index_state(dsn: str) -> bool | None:
    conn = await asyncpg.connect(dsn)
    try:
        valid: bool | None = await conn.fetchval(
            "select indisvalid from pg_index where indexrelid = to_regclass('a_by_id')"
        )
        return valid
    finally:
        await conn.close()


async def test_an_index_is_built_while_others_write_and_migrators_wait(
    empty_dsn: str, line: Line
) -> None:
    await migrate(empty_dsn, [line("create table a (id int)")])
    mine = line("create table a (id int)", ONLINE)
    writer = await asyncpg.connect(empty_dsn)
    transaction = writer.transaction()
    await transaction.start()
    await writer.execute("insert into a values (1)")
    migrators = [asyncio.create_task(migrate(empty_dsn, [mine])) for _ in range(3)]

    async def begun() -> bool:
        return await index_state(empty_dsn) is False

    await eventually(begun, within=20)  # it waits for the writer, who is not stopped by it
    await writer.execute("insert into a values (2)")
    await transaction.commit()
    await writer.close()
    answers = await asyncio.gather(*migrators)
    assert sorted(answers) == [[], [], ["mine/0002_step"]]
    assert await index_state(empty_dsn) is True


async def test_what_a_crash_left_of_an_index_is_built_again(empty_dsn: str, line: Line) -> None:
    """An invalid index slows writes and serves nobody; `if not exists` would keep it for ever."""
    await migrate(empty_dsn, [line("create table a (id int)")])
    conn = await asyncpg.connect(empty_dsn)
    await conn.execute("insert into a values (1), (1)")
    mine = line("create table a (id int)", ONLINE)
    with pytest.raises(StoreRejected, match="23505"):
        await migrate(empty_dsn, [mine])
    assert await index_state(empty_dsn) is False
    await conn.execute("delete from a where ctid = (select min(ctid) from a)")
    assert await migrate(empty_dsn, [mine]) == ["mine/0002_step"]
    assert await index_state(empty_dsn) is True

    await conn.execute("delete from sagabus_migration where version = 2")  # built, not recorded
    assert await migrate(empty_dsn, [mine]) == ["mine/0002_step"]
    gone = line(
        "create table a (id int)",
        ONLINE,
        "-- no transaction\ndrop index concurrently if exists a_by_id",
    )
    assert await migrate(empty_dsn, [gone]) == ["mine/0003_step"]
    assert await index_state(empty_dsn) is None
    await conn.close()


@pytest.mark.parametrize(
    "text",
    [
        "-- no transaction\nalter table a add note text",
        f"{ONLINE} drop table a",
        "-- no transaction\ncreate index concurrently if not exists a_by_id on a (id)",
    ],
    ids=["another statement", "two statements", "an index that may be invalid"],
)
async def test_only_an_index_goes_without_a_transaction(
    empty_dsn: str, line: Line, text: str
) -> None:
    with pytest.raises(MigrationError, match="migration_not_online"):
        await migrate(empty_dsn, [line("create table a (id int)", text)])


async def test_a_step_gives_way_to_running_code(empty_dsn: str, line: Line) -> None:
    await migrate(empty_dsn, [line("create table a (id int)")])
    running = await asyncpg.connect(empty_dsn)
    async with running.transaction():
        await running.execute("insert into a values (1)")
        text = "set local lock_timeout = '50ms'; alter table a add note text"
        with pytest.raises(StoreUnavailable, match="55P03"):
            await migrate(empty_dsn, [line("create table a (id int)", text)])
    await running.close()


async def test_the_schema_file_equals_the_sum_of_the_migrations(
    empty_dsn: str, observer: asyncpg.Connection
) -> None:
    conn = await asyncpg.connect(empty_dsn)
    await conn.execute("set search_path = public, pg_temp")
    await conn.execute(files("sagabus_store").joinpath("sql/schema.sql").read_text())
    from_file, from_steps = await describe_schema(conn), await describe_schema(observer)
    assert from_file == from_steps
    assert len(from_file) > 20
    await conn.execute("alter table outbox alter column topic set default 'x'")
    assert await describe_schema(conn) != from_steps
    await conn.close()


async def test_a_schema_of_its_own(empty_dsn: str) -> None:
    await migrate(empty_dsn, [SHARED], schema="Odd name")
    db = Database(empty_dsn, DatabaseOptions("x", schema='"Odd name"'))
    await db.open()
    assert (await inbox.maintain(db, InboxWindow(1))).created
    async with db.transaction() as conn:
        now = await db.now_ms()
        assert await inbox.claim(conn, "c", [Claim("s", "1", now)]) == [True]
    await db.close()


@pytest.fixture
def role_names(dsn: str) -> Iterator[tuple[str, str]]:
    suffix = uuid.uuid4().hex[:8]
    names = (f"app_{suffix}", f"relay_{suffix}")
    yield names

    async def drop() -> None:
        conn = await asyncpg.connect(dsn)
        for name in names:
            await conn.execute(f"drop owned by {name}; drop role {name}")
        await conn.close()

    asyncio.run(drop())


async def test_run_time_roles_may_do_their_work_and_nothing_else(
    dsn: str,
    observer: asyncpg.Connection,
    role_names: tuple[str, str],
    as_role: Callable[[str, str, str], str],
) -> None:
    app, relay = role_names
    for _ in range(2):
        await roles.ensure_login_role(observer, app, "app-secret")
        await roles.ensure_login_role(observer, relay, "relay-secret")
        await roles.grant(observer, [SHARED], profile="app", role=app)
        await roles.grant(observer, [SHARED], profile="relay", role=relay)
    service = Database(as_role(dsn, app, "app-secret"), DatabaseOptions("app"))
    await service.open()
    await inbox.maintain(service, InboxWindow(2))
    async with service.transaction() as conn:
        now = await service.now_ms()
        assert await inbox.claim(conn, "c", [Claim("s", "1", now)]) == [True]
        await outbox.append_locked(conn, [OutboxRow("t", b"k", (), b"v")])
        await require_current(conn, [SHARED])
    for forbidden in (
        "select * from outbox",
        "delete from inbox",
        "create table t ()",
        "drop table outbox",
        "insert into outbox_parked (id) values (1)",
    ):
        with pytest.raises(StoreUnavailable, match="42501"):
            async with service.transaction() as conn:
                await conn.execute(forbidden)
    await service.close()
    drain = Database(as_role(dsn, relay, "relay-secret"), DatabaseOptions("relay"))
    await drain.open()
    async with drain.transaction() as conn:
        (found,) = await conn.fetch(outbox.SQL["fetch_outbox"], list(range(64)), 10)
        await conn.execute(outbox.SQL["delete_outbox"], [found["shard"]], [found["id"]])
    with pytest.raises(StoreUnavailable, match="42501"):
        async with drain.transaction() as conn:
            await conn.execute("select * from inbox")
    await drain.close()


async def test_a_wrong_password_or_profile_is_told(
    dsn: str, observer: asyncpg.Connection, as_role: Callable[[str, str, str], str]
) -> None:
    stranger = Database(as_role(dsn, "nobody_knows", "x"), DatabaseOptions("x"))
    with pytest.raises(StoreMisconfigured, match="28P01"):
        await stranger.open()
    with pytest.raises(MigrationError, match="no_grants"):
        await roles.grant(observer, [], profile="app", role="x")
