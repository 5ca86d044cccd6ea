"""The outbox on a real Postgres: order of ids, locks of keys, and plans that stay index scans."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence

import pytest

from sagabus_core.ids import shard_of
from sagabus_messages.record import OutboxRow, unpack_headers
from sagabus_store import QUEUE_PLANNER, Connection, Database, DatabaseOptions, outbox

pytestmark = pytest.mark.stack
HEADERS = (("ce_id", b"1"), ("traceparent", b"\x00\xff"))


def row(key: bytes | None, value: bytes | None = b"{}", topic: str = "t") -> OutboxRow:
    return OutboxRow(topic, key, HEADERS, value)


async def test_rows_come_back_as_written_in_their_order(db: Database, observer: Connection) -> None:
    rows = [row(f"k{n % 7}".encode(), str(n).encode()) for n in range(300)]
    rows += [row(None, None), row(b"", b"")]
    async with db.transaction() as conn:
        await outbox.append(conn, [])
        await outbox.append(conn, rows)
    found = await observer.fetch("select * from outbox order by id")
    assert [(r["topic"], r["key"], r["value"]) for r in found] == [
        (r.topic, r.key, r.value) for r in rows
    ]
    assert all(unpack_headers(r["headers"]) == HEADERS for r in found)
    assert [r["shard"] for r in found] == [shard_of(r.key) for r in rows]


async def test_a_batch_is_a_constant_number_of_statements(db: Database, counted) -> None:  # type: ignore[no-untyped-def]  # a class of conftest cannot be imported
    for append, expected in ((outbox.append, 1), (outbox.append_locked, 1)):
        for size in (1, 500):
            async with db.transaction() as conn, counted.on(conn) as statements:
                # The driver learns the array types at the first call on each connection.
                await append(conn, [row(b"warm")])
                statements.clear()
                await append(conn, [row(f"k{n}".encode()) for n in range(size)])
                assert len(statements) == expected


async def test_trap_17_rolling_back_publishes_nothing(db: Database, observer: Connection) -> None:
    with pytest.raises(KeyError):
        async with db.transaction() as conn:
            await outbox.append(conn, [row(b"k")])
            raise KeyError("bug")
    assert await observer.fetchval("select count(*) from outbox") == 0


async def test_publishers_of_one_key_get_ids_in_commit_order(
    db: Database, observer: Connection, until_waiting: Callable[[], Awaitable[None]]
) -> None:
    async def publish(value: bytes) -> None:
        async with db.transaction() as conn:
            await outbox.append_locked(conn, [row(b"k", value)])

    async with db.transaction() as conn:
        await outbox.append_locked(conn, [row(b"k", b"first")])
        second = asyncio.create_task(publish(b"second"))
        await until_waiting()
        async with asyncio.timeout(5):
            async with db.transaction() as other:
                await outbox.append_locked(other, [row(b"another key", b"free")])
        assert not second.done()
        await outbox.append(conn, [row(b"k", b"still first")])
    await second
    found = await observer.fetch("select value from outbox where key = 'k' order by id")
    assert [r["value"] for r in found] == [b"first", b"still first", b"second"]


async def test_publishers_of_many_keys_in_any_order_never_deadlock(db: Database) -> None:
    rows = [row(str(n).encode()) for n in range(300)]

    async def publish(batch: Sequence[OutboxRow]) -> None:
        async with db.transaction() as conn:
            await outbox.append_locked(conn, batch)

    await asyncio.gather(*(publish(rows[:: 1 if n % 2 else -1]) for n in range(6)))


async def test_reading_and_removing_by_shard(db: Database) -> None:
    async with db.transaction() as conn:
        await outbox.append(conn, [row(str(n).encode()) for n in range(400)])
    async with db.connection() as conn:
        shards = [0, 5, 63]
        found = await conn.fetch(outbox.SQL["fetch_outbox"], shards, 2)
        by_shard = {shard: [r["id"] for r in found if r["shard"] == shard] for shard in shards}
        assert all(ids == sorted(ids) and len(ids) == 2 for ids in by_shard.values())
        await conn.execute(
            outbox.SQL["delete_outbox"], [r["shard"] for r in found], [r["id"] for r in found]
        )
        after = await conn.fetch(outbox.SQL["fetch_outbox"], shards, 2)
        assert min(r["id"] for r in after) > min(r["id"] for r in found)
        assert not {r["id"] for r in after} & {r["id"] for r in found}
        assert await conn.fetchval("select count(*) from outbox") == 394


def nodes(plan: dict[str, object]) -> set[str]:
    children = plan.get("Plans", [])
    assert isinstance(children, list)
    return {str(plan["Node Type"])}.union(*(nodes(child) for child in children))


async def plan_of(conn: Connection, query: str, arguments: str) -> set[str]:
    """Node types of the generic plan: the one that a cached statement settles on."""
    await conn.execute("set plan_cache_mode = force_generic_plan")
    await conn.execute(f"prepare it as {query}")
    text = await conn.fetchval(f"explain (format json) execute it ({arguments})")
    await conn.execute("deallocate it")
    return nodes(json.loads(text)[0]["Plan"])


@pytest.mark.parametrize(
    "state", ["young", "analysed empty", "full", "drained", "drained, analysed"]
)
async def test_draining_stays_an_index_scan_on_any_state_of_the_table(
    dsn: str, observer: Connection, state: str
) -> None:
    if state != "young":
        await observer.execute("analyze outbox")
    if state not in {"young", "analysed empty"}:
        await observer.execute(
            "insert into outbox (shard, topic, key, headers, value)"
            " select n % 64, 't', 'k', '', repeat('x', 300)::bytea from generate_series(1, 20000) n"
        )
        await observer.execute("analyze outbox")
    if "drained" in state:
        await observer.execute("delete from outbox")
    if state == "drained, analysed":
        await observer.execute("analyze outbox")
    relay = Database(dsn, DatabaseOptions("relay", pool_size=1, server_settings=QUEUE_PLANNER))
    await relay.open()
    async with relay.connection() as conn:
        fetch = await plan_of(conn, outbox.SQL["fetch_outbox"], "'{1,2,3}', 100")
        delete = await plan_of(conn, outbox.SQL["delete_outbox"], "'{1,2}', '{1,2}'")
    await relay.close()
    assert "Tid Scan" in delete, delete
    for found in (fetch, delete):
        assert "Index Scan" in found, found
        assert not found & {"Seq Scan", "Sort", "Hash Join", "Merge Join", "Bitmap Heap Scan"}


async def test_a_parked_row_keeps_its_id_and_goes_back_in_order(
    db: Database, observer: Connection
) -> None:
    async with db.transaction() as conn:
        await outbox.append(conn, [row(b"k", b"1"), row(b"k", b"2")])
        await conn.execute(
            "with moved as (delete from outbox returning *) insert into outbox_parked"
            " (id, shard, topic, key, headers, value, created_at, reason)"
            " select id, shard, topic, key, headers, value, created_at,"
            " case value when '1' then 'record_too_large' end from moved"
        )
    async with db.transaction() as conn:
        await outbox.append(conn, [row(b"k", b"3")])
        await conn.execute(
            "with back as (delete from outbox_parked returning *)"
            " insert into outbox (id, shard, topic, key, headers, value, created_at)"
            " overriding system value"
            " select id, shard, topic, key, headers, value, created_at from back"
        )
    found = await observer.fetch("select value from outbox order by id")
    assert [r["value"] for r in found] == [b"1", b"2", b"3"]
