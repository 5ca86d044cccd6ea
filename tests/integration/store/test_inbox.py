"""The inbox on a real Postgres: once per consumer, on any day, under concurrency."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from sagabus_store import (
    Claim,
    Connection,
    Database,
    InboxWindow,
    PartitionMissing,
    StoreRejected,
    StoreUnavailable,
    inbox,
)
from sagabus_store.inbox import DAY_MS

pytestmark = pytest.mark.stack
WINDOW = InboxWindow(3)
UntilWaiting = Callable[[], Awaitable[None]]


@pytest.fixture
async def ready(db: Database) -> Database:
    await inbox.maintain(db, WINDOW)
    return db


async def claimed(db: Database, *claims: Claim, consumer: str = "orders") -> list[bool]:
    async with db.transaction() as conn:
        return await inbox.claim(conn, consumer, claims)


async def test_each_message_is_claimed_once_per_consumer(ready: Database) -> None:
    now = await ready.now_ms()
    one, two, three = (Claim("urn:a", name, now) for name in ("1", "2", "3"))
    assert await claimed(ready) == []
    assert await claimed(ready, two, one, two) == [True, True, False]
    assert await claimed(ready, one, three, Claim("urn:b", "1", now)) == [False, True, True]
    assert await claimed(ready, one, consumer="audit") == [True]


async def test_trap_19_the_day_comes_from_the_message_not_from_the_clock(ready: Database) -> None:
    midnight = (await ready.now_ms()) // DAY_MS * DAY_MS
    before, after = Claim("s", "id", midnight - 1), Claim("s", "id", midnight)
    assert await claimed(ready, before) == [True]
    # A repeat carries the same time, so it meets the same day whenever it comes.
    assert await claimed(ready, before) == [False]
    # The same id with another day is another message: producers set ce_time once.
    assert await claimed(ready, after, before) == [True, False]


async def test_rolling_back_frees_the_claim(ready: Database) -> None:
    message = Claim("s", "id", await ready.now_ms())
    with pytest.raises(KeyError):
        async with ready.transaction() as conn:
            assert await inbox.claim(conn, "orders", [message]) == [True]
            raise KeyError("bug")
    assert await claimed(ready, message) == [True]


@pytest.mark.parametrize("first_commits", [True, False])
async def test_a_rival_waits_and_exactly_one_wins(
    ready: Database, until_waiting: UntilWaiting, first_commits: bool
) -> None:
    message = Claim("s", "id", await ready.now_ms())
    rivals: list[asyncio.Task[list[bool]]] = []

    def end_first() -> None:
        if not first_commits:
            raise KeyError("roll back")

    with suppress(KeyError):
        async with ready.transaction() as conn:
            assert await inbox.claim(conn, "orders", [message]) == [True]
            rivals.append(asyncio.create_task(claimed(ready, message)))
            await until_waiting()
            assert not rivals[0].done()
            end_first()
    assert await rivals[0] == [not first_commits]


async def test_overlapping_batches_in_any_order_never_deadlock(ready: Database) -> None:
    now = await ready.now_ms()
    batch = [Claim("s", str(number), now - number) for number in range(200)]
    answers = await asyncio.gather(
        *(claimed(ready, *(batch if turn % 2 else reversed(batch))) for turn in range(8))
    )
    assert sum(sum(answer) for answer in answers) == len(batch)


async def test_a_batch_is_one_statement(ready: Database, counted) -> None:  # type: ignore[no-untyped-def]  # a class of conftest cannot be imported
    now = await ready.now_ms()
    for size in (1, 500):
        async with ready.transaction() as conn, counted.on(conn) as statements:
            # The driver learns the array types at the first call on each connection.
            await inbox.claim(conn, "warm", [Claim("s", f"{size}", now)])
            statements.clear()
            claims = [Claim("s", f"{size}-{n}", now) for n in range(size)]
            assert all(await inbox.claim(conn, "orders", claims))
            assert len(statements) == 1


async def test_a_missing_partition_is_no_poison(ready: Database) -> None:
    now = await ready.now_ms()
    with pytest.raises(PartitionMissing) as caught:
        await claimed(ready, Claim("s", "id", now + 30 * DAY_MS))
    assert caught.value.retryable
    with pytest.raises(StoreRejected, match="54000"):
        await claimed(ready, Claim("s", os.urandom(6_000).hex(), now))


async def test_maintenance_makes_and_drops_days_and_repeats_do_nothing(
    db: Database, observer: Connection
) -> None:
    first = await inbox.maintain(db, InboxWindow(5))
    assert (first.created, first.dropped) == (5 + 1 + 1 + 3, ())
    again = await asyncio.gather(*(inbox.maintain(db, InboxWindow(5)) for _ in range(3)))
    assert all(round_.created == 0 and not round_.dropped for round_ in again)
    shorter = await inbox.maintain(db, InboxWindow(2))
    assert len(shorter.dropped) == 3
    assert list(shorter.dropped) == sorted(shorter.dropped)
    assert await observer.fetchval("select count(*) from pg_inherits") == 2 + 1 + 1 + 3 + 7


async def test_the_day_in_use_cannot_be_dropped(ready: Database) -> None:
    today = datetime.now(UTC).date()
    for _ in range(10):
        async with ready.connection() as conn:
            dropped = await conn.fetchval("select inbox_drop_partition_before($1)", today)
        assert dropped is None or dropped < today
    with pytest.raises(StoreRejected, match="may still be in use"):
        async with ready.connection() as conn:
            await conn.fetchval("select inbox_drop_partition_before($1)", today + timedelta(2))


async def test_trap_06_dropping_gives_way_to_a_long_transaction_and_claims_go_on(
    ready: Database,
) -> None:
    now = await ready.now_ms()
    async with ready.transaction() as conn:
        await inbox.claim(conn, "orders", [Claim("s", "long", now)])
        with pytest.raises(StoreUnavailable, match="55P03"):
            await inbox.maintain(ready, InboxWindow(1))
        assert await claimed(ready, Claim("s", "other", now)) == [True]
    assert len((await inbox.maintain(ready, InboxWindow(1))).dropped) == 2


async def test_new_days_are_made_beside_an_open_claim(ready: Database) -> None:
    async with ready.transaction() as conn:
        await inbox.claim(conn, "orders", [Claim("s", "open", await ready.now_ms())])
        assert (await inbox.maintain(ready, InboxWindow(6))).created == 3


async def test_trap_06_dropping_under_load_loses_no_claim(ready: Database) -> None:
    done = asyncio.Event()
    answers: list[bool] = []

    async def load(worker: int) -> None:
        number = 0
        while not done.is_set():
            now = await ready.now_ms()
            claims = [Claim("s", f"{worker}-{number}-{n}", now) for n in range(20)]
            answers.extend(await claimed(ready, *claims))
            number += 1

    workers = [asyncio.create_task(load(worker)) for worker in range(3)]
    for days in (20, 1, 20, 1):
        await inbox.maintain(ready, InboxWindow(days))
    done.set()
    await asyncio.gather(*workers)
    assert answers
    assert all(answers)
