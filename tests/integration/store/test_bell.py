"""The bell of an outbox: a sleeping relay hears every commit, a busy one costs writers nothing."""

import asyncpg

from sagabus_messages.record import OutboxRow
from sagabus_store import Database, OutboxBell, outbox
from sagabus_testkit import eventually

ROW = OutboxRow("t", b"k", (), b"v")
SOON_MS, AT_ONCE_MS = 20_000.0, 0.0


async def append(db: Database) -> None:
    async with db.transaction() as conn:
        await outbox.append(conn, [ROW])


async def test_whoever_holds_the_bell_hears_a_commit_and_not_a_rollback(
    db: Database, dsn: str
) -> None:
    bell = OutboxBell(dsn, "test-bell")
    assert await bell.hold()
    async with db.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await outbox.append(conn, [ROW])
        await transaction.rollback()
    assert not await bell.wait(AT_ONCE_MS)
    await append(db)
    assert await bell.wait(SOON_MS)
    bell.clear()
    assert not await bell.wait(AT_ONCE_MS)
    await bell.close()


async def test_nobody_holds_the_bell_while_a_writer_that_did_not_ring_is_under_way(
    db: Database, dsn: str
) -> None:
    bell = OutboxBell(dsn, "test-bell")
    async with db.connection() as conn:
        transaction = conn.transaction()
        await transaction.start()
        await outbox.append(conn, [ROW])
        assert not await bell.hold()
        await transaction.commit()
    assert await bell.hold()  # and the look that follows sees what that writer has committed
    await bell.close()


async def test_without_a_sleeper_nobody_is_told(db: Database, dsn: str) -> None:
    bell = OutboxBell(dsn, "test-bell")
    assert await bell.hold()
    await bell.let_go()
    await append(db)
    listener = await asyncpg.connect(dsn)
    heard: list[object] = []
    await listener.add_listener("sagabus_outbox", lambda *notice: heard.append(notice[-1]))
    await append(db)
    await listener.execute("notify sagabus_outbox, 'last'")
    await eventually(lambda: "last" in heard)
    assert heard == ["last"]
    await listener.close()
    await bell.close()


async def test_a_second_listener_is_told_that_the_bell_is_taken(db: Database, dsn: str) -> None:
    first, second = OutboxBell(dsn, "first"), OutboxBell(dsn, "second")
    assert await first.hold()
    assert not await second.hold()
    await first.close()

    async def has_it() -> bool:
        return await second.hold()

    await eventually(has_it)
    await second.close()


async def test_an_outbox_without_the_trigger_has_no_bell(db: Database, dsn: str) -> None:
    async with db.connection() as conn:
        await conn.execute("alter table outbox disable trigger outbox_ring")
    bell = OutboxBell(dsn, "test-bell")
    assert not await bell.hold()
    assert not bell.held
    async with db.connection() as conn:
        await conn.execute("alter table outbox enable trigger outbox_ring")
    assert await bell.hold()
    await bell.close()


async def test_a_lost_session_ends_the_sleep_and_is_made_anew(db: Database, dsn: str) -> None:
    bell = OutboxBell(dsn, "test-bell")
    assert await bell.hold()
    async with db.connection() as conn:
        await conn.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where application_name = 'test-bell' and datname = current_database()"
        )
    assert await bell.wait(SOON_MS)
    await eventually(lambda: not bell.held)

    async def has_it() -> bool:
        return await bell.hold()

    await eventually(has_it)
    bell.clear()
    await append(db)
    assert await bell.wait(SOON_MS)
    await bell.close()
