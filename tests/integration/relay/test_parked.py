"""`sagabus parked` on an outbox: in order, once, audited; and looks that cost little."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from sagabus_cli import app
from sagabus_relay.table import Fetch
from sagabus_runtime import failpoints
from sagabus_store import outbox
from sagabus_testkit import eventually

from .support import Bench, firsts, make_topic, read, relaying, row

REFUSED = 4
WHY = ("--reason", "mended")
Shell = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def shell(
    orders: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.setenv("SAGABUS_OUTBOXES", json.dumps({"orders": orders.dsn}))

    async def run(*words: str, code: int = 0) -> dict[str, Any]:
        capsys.readouterr()
        ended = await asyncio.to_thread(app.run, ["--json", "parked", *words])
        said = capsys.readouterr()
        assert ended == code, said.out + said.err
        document: dict[str, Any] = json.loads(said.out)
        return document

    return run


async def park(orders: Bench) -> None:
    """Let the relay park two keys: each a refused record with followers."""
    async with relaying(orders.settings(relay_record_bytes=1_000)):
        for key in ("a", "b"):
            await orders.append([row(orders.topic, key, 0, 5_000)])
            await orders.append([row(orders.topic, key, n) for n in (1, 2)])
        await eventually(orders.drained, within=20)
    assert await orders.count("outbox_parked") == 6


async def test_trap_02_parked_keys_are_redriven_or_lose_their_refused_record_alone(
    orders: Bench, shell: Shell
) -> None:
    await park(orders)
    listed = await shell("list", "--where", "code=record_too_large")
    ids = {entry["key"]: entry["id"] for entry in listed["parked"]}
    assert [entry["rows"] for entry in listed["parked"]] == [3, 3]
    shown = await shell("show", str(ids["a"]))
    assert (shown["bytes"], shown["headers"]) == (5_000, {"n": "0"})

    dry = await shell("redrive", "--where", f"topic={orders.topic}", *WHY, "--dry-run")
    assert [entry["put_back"] for entry in dry["keys"]] == [3, 3]
    assert await orders.count("outbox_parked") == 6

    discard = ("discard", str(ids["a"]), *WHY, "--operation-id", "op-1")
    once, again = await shell(*discard), await shell(*discard)
    assert [done["keys"][0]["discarded"] for done in (once, again)] == [ids["a"]] * 2
    assert [done["keys"][0]["repeated"] for done in (once, again)] == [False, True]
    gone = await shell("discard", str(ids["a"]), *WHY, code=REFUSED)
    assert gone["error"]["code"] == "nothing_parked"
    words = ("redrive", str(ids["b"]), *WHY, "--operation-id", "op-2")
    assert (await shell(*words))["keys"][0]["put_back"] == 3
    other = ("redrive", str(ids["a"]), *WHY, "--operation-id", "op-1")
    assert (await shell(*other, code=REFUSED))["error"]["code"] == "operation_id_reused"

    async with relaying(orders.settings()):
        await eventually(orders.drained, within=20)
    assert firsts(await read(orders.stack, orders.topic)) == {"a": [1, 2], "b": [0, 1, 2]}
    async with orders.database.connection() as connection:
        deeds = await connection.fetch(
            "select operation_id, kind, reason, code, length(value) as size"
            " from outbox_operation order by recorded_at"
        )
    assert [tuple(deed.values()) for deed in deeds] == [
        ("op-1", "discard", "mended", "record_too_large", 5_000),
        ("op-2", "redrive", "mended", None, None),
    ]


async def test_parked_keys_are_found_behind_others_and_none_is_told_in_a_sentence(
    orders: Bench, shell: Shell, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    await park(orders)
    await orders.run("update outbox_parked set reason = 'other' where key = 'b' and reason <> ''")
    found = await shell("list", "--where", "code=other", "--limit", "1")
    assert [entry["key"] for entry in found["parked"]] == ["b"]
    assert (await shell("list", "--where", "topic=nowhere"))["parked"] == []

    await orders.run("delete from outbox_parked")
    monkeypatch.delenv("SAGABUS_OUTBOXES")
    capsys.readouterr()
    assert await asyncio.to_thread(app.run, ["--postgres", orders.dsn, "parked", "list"]) == 0
    said = capsys.readouterr()
    assert said.out == "no key is parked\n"
    assert "SAGABUS_OUTBOXES" in said.err
    monkeypatch.setenv("SAGABUS_OUTBOXES", "orders")
    assert (await shell("list", code=2))["error"]["code"] == "invalid_address"


async def test_the_rows_of_a_held_topic_are_skipped_and_not_read(orders: Bench) -> None:
    """Every look would otherwise read all that the held topic has piled up."""
    held, flowing = f"{orders.prefix}.held", orders.topic
    async with orders.database.transaction() as connection:
        await outbox.append(connection, [row(held, f"k{n}", n) for n in range(5_000)])
        await outbox.append(connection, [row(flowing, f"k{n}", n) for n in range(100)])
        await outbox.append(connection, [row(held, f"k{n}", n) for n in range(5_000)])
    async with orders.table() as table:
        before = await touched(orders)
        found = await table.fetch(Fetch(range(64), [held], 500, 1_000_000))
        assert sorted(r.id for r in found) == list(range(5_001, 5_101))
        assert await table.fetch(Fetch(range(64), [held, flowing], 500, 1_000_000)) == []
        assert [r.topic for r in await table.fetch(Fetch([7], [], 1, 1_000))] == [held]
    after = await eventually(lambda: moved(orders, before), within=20)
    assert after - before < 1_000, "rows of the held topic were read"


async def test_no_topic_of_a_shard_takes_the_whole_round_beside_a_held_one(orders: Bench) -> None:
    held, *flowing = (f"{orders.prefix}.{name}" for name in ("held", "a", "z"))
    async with orders.database.transaction() as connection:
        for topic in (held, *flowing):
            await outbox.append(connection, [row(topic, "k", n) for n in range(200)])
    async with orders.table() as table:
        found = await table.fetch(Fetch(range(64), [held], 100, 1_000_000))
    for topic in flowing:
        numbers = [r.id for r in found if r.topic == topic]
        assert len(numbers) == 25, "a quarter each"
        assert numbers == list(range(numbers[0], numbers[0] + 25)), "the oldest, unbroken"


async def touched(orders: Bench) -> int:
    """Return how many rows of the outbox scans have read, as the server counts them."""
    async with orders.database.connection() as connection:
        return int(
            await connection.fetchval(
                "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables"
                " where relname = 'outbox'"
            )
        )


async def moved(orders: Bench, before: int) -> int:
    now = await touched(orders)
    return now if now > before else 0


async def test_trap_02_rows_flow_beside_a_held_topic_in_the_order_of_their_keys(
    orders: Bench,
) -> None:
    held = f"{orders.prefix}.later"
    async with relaying(orders.settings(relay_batch_rows=20)):
        for n in range(20):
            await orders.append(
                [row(topic, f"k{k}", n) for k in range(10) for topic in (held, orders.topic)]
            )

        async def only_held_is_left() -> bool:
            return await orders.count() == 200

        await eventually(only_held_is_left, within=30)
        await make_topic(orders.stack, held)
        await eventually(orders.drained, within=30)
    for topic in (held, orders.topic):
        found = firsts(await read(orders.stack, topic))
        assert found == {f"k{k}": list(range(20)) for k in range(10)}


async def test_an_idle_outbox_is_looked_at_no_more_often_than_allowed(orders: Bench) -> None:
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    settings = orders.settings(relay_idle_ms=50)
    with failpoints.on("relay.after-fetch", look):
        async with relaying(settings):
            await eventually(lambda: looks >= 10, within=20)  # the waits have grown to their bound
            first, began = looks, time.monotonic()
            await eventually(lambda: looks >= first + 10, within=20)
            elapsed_ms = (time.monotonic() - began) * 1000
            # Waits never end early, so a slow machine can only make this fewer.
            assert looks - first <= elapsed_ms / settings.idle_ms + 2
