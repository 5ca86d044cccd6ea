"""Pages over journal and audit: every row once, in order, whatever commits late."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import uuid4

import asyncpg
import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.errors import InvalidValue
from sagabus_orchestrator.audit import FactPages, Wanted
from sagabus_orchestrator.audit.horizon import Horizon, held_gauge
from sagabus_orchestrator.audit.pages import FactRow
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_runtime import failpoints
from sagabus_testkit import eventually

from .support import Rig, Shell, commands, order, pause

INSERT: Final = (
    "insert into journal (saga_id, revision, ordinal, fact, head, recorded_at)"
    " values ($1, $2, 0, '{\"kind\":\"status\"}', '', clock_timestamp()) returning seq"
)
IMPATIENT_MS: Final = 30


class Writer:
    """A transaction that writes when it is told to, and has its id before its first number."""

    def __init__(self, conn: "asyncpg.Connection[asyncpg.Record]") -> None:
        self._conn = conn
        self._transaction = conn.transaction()

    async def begin(self) -> "Writer":
        await self._transaction.start()
        await self._conn.fetchval("select pg_current_xact_id()")
        return self

    async def write(self, saga: str | None = None, revision: int = 1) -> int:
        return int(await self._conn.fetchval(INSERT, saga or str(uuid4()), revision))

    async def commit(self) -> None:
        await self._transaction.commit()

    async def roll_back(self) -> None:
        await self._transaction.rollback()


@asynccontextmanager
async def writers(dsn: str, count: int) -> AsyncIterator[list[Writer]]:
    conns = [await asyncpg.connect(dsn) for _ in range(count)]
    try:
        yield [await Writer(conn).begin() for conn in conns]
    finally:
        for conn in conns:
            await conn.close()


class Reader:
    """Somebody who follows the journal from here on."""

    def __init__(self, rig: Rig, wanted: Wanted | None = None, limit: int = 100) -> None:
        self._pages = FactPages(rig.database, IMPATIENT_MS)
        self._wanted = wanted or Wanted()
        self._limit = limit
        self.cursor: str | None = None
        self.seen: list[FactRow] = []

    async def read(self) -> list[int]:
        """Return the numbers of one page."""
        page = await self._pages.facts(self._wanted, self._limit, self.cursor)
        self.cursor = page.cursor
        self.seen += page.rows
        return [row.seq for row in page.rows]


async def test_trap_20_a_page_never_skips_what_commits_late(rig: Rig, prepared: str) -> None:
    reader = Reader(rig)
    await reader.read()
    naive_at = int(str(await rig.value("select coalesce(max(seq), 0) from journal")))
    async with writers(prepared, 2) as (slow, quick):
        late = await slow.write()
        early = await quick.write()
        await quick.commit()
        # What the trap is about: whoever remembers the greatest number has lost the other one.
        naive = await rig.value("select max(seq) from journal where seq > $1", naive_at)
        assert naive == early > late
        assert await reader.read() == []
        await slow.commit()
        assert await rig.value("select count(*) from journal where seq > $1", early) == 0
    assert await reader.read() == [late, early]
    assert await reader.read() == []


async def test_trap_20_an_older_transaction_may_take_a_newer_number(
    rig: Rig, prepared: str
) -> None:
    """The order of transaction ids is not that of the numbers: neither may be skipped."""
    reader = Reader(rig)
    await reader.read()
    async with writers(prepared, 3) as (oldest, middle, newest):
        first = await newest.write()
        second = await oldest.write()
        await oldest.commit()
        assert await reader.read() == []
        third = await middle.write()
        await newest.commit()
        assert await reader.read() == []
        await middle.roll_back()
    assert await reader.read() == [first, second]
    assert third not in [row.seq for row in reader.seen]


@pytest.mark.parametrize("seed", range(3))
async def test_trap_20_readers_of_interleaved_transactions_see_every_fact_once_and_in_order(
    rig: Rig, prepared: str, seed: int
) -> None:
    chance = random.Random(seed)
    reader, small = Reader(rig), Reader(rig, limit=3)
    await reader.read()
    await small.read()
    begin = int(str(await rig.value("select coalesce(max(seq), 0) from journal")))
    committed: list[int] = []
    async with writers(prepared, 6) as open_ones:
        taken: dict[Writer, list[int]] = {writer: [] for writer in open_ones}
        while open_ones:
            writer = chance.choice(open_ones)
            match chance.randrange(5):
                case 0 | 1 | 2:
                    taken[writer].append(await writer.write())
                case 3:
                    await reader.read()
                    await small.read()
                case _ if chance.random() < 0.2:
                    await writer.roll_back()
                    open_ones.remove(writer)
                case _:
                    await writer.commit()
                    committed += taken[writer]
                    open_ones.remove(writer)
    for follower in (reader, small):
        while await follower.read():
            pass
        assert [row.seq for row in follower.seen if row.seq > begin] == sorted(committed)


async def test_trap_20_real_batches_with_stalled_commits_are_followed_without_a_gap(
    rig: Rig,
) -> None:
    reader = Reader(rig)
    done = asyncio.Event()

    async def follow() -> None:
        while not done.is_set() or await reader.read():
            await reader.read()

    async def story(name: str) -> None:
        sent = await rig.process(*(rig.start_record(f"{name}-{n}") for n in range(4)))
        await rig.process(*(rig.result_record(c) for c in commands(sent) if name in c.business_key))

    following = asyncio.create_task(follow())
    with failpoints.armed("store.before-commit=stall:20ms"):
        await asyncio.gather(*(story(f"S{n}") for n in range(6)))
    done.set()
    await following
    count = await rig.value("select count(*) from journal")
    assert len({row.seq for row in reader.seen}) == len(reader.seen) == count
    for saga in {row.saga_id for row in reader.seen}:
        places = [(row.revision, row.ordinal) for row in reader.seen if row.saga_id == saga]
        assert places == sorted(places)


async def test_a_reader_who_is_held_back_is_told_and_gets_what_is_known_to_be_complete(
    rig: Rig, prepared: str
) -> None:
    await rig.process(rig.start_record())
    horizon = Horizon(rig.database, held_gauge(registry := CollectorRegistry()))

    async def noted() -> bool:
        await horizon.move()
        settled = await rig.value("select settled from page_horizon where stream = 'journal'")
        return settled == await rig.value("select max(seq) from journal")

    await eventually(noted)
    async with writers(prepared, 1) as (forgotten,):
        await rig.process(rig.start_record("ORD-2"))
        page = await FactPages(rig.database, IMPATIENT_MS).facts(Wanted(), 100)
        assert {row.business_key for row in page.rows} == {"ORD-1"}
        assert page.held is not None
        assert page.held.pid is not None
        assert page.held.state == "idle in transaction"
        await horizon.move()

        async def grows() -> bool:
            await horizon.move()
            labels = {"stream": "journal"}
            return bool(registry.get_sample_value("sagabus_pages_held_seconds", labels))

        await eventually(grows)
        await forgotten.roll_back()
    rest = await FactPages(rig.database, IMPATIENT_MS).facts(Wanted(), 100, page.cursor)
    assert {row.business_key for row in rest.rows} == {"ORD-2"}
    assert rest.held is None


async def test_a_transaction_that_only_reads_holds_nobody_back(rig: Rig, prepared: str) -> None:
    conn = await asyncpg.connect(prepared)
    async with conn.transaction(isolation="repeatable_read"):
        await conn.fetch("select count(*) from saga")
        await rig.process(rig.start_record())
        page = await FactPages(rig.database, IMPATIENT_MS).facts(Wanted(), 100)
    await conn.close()
    assert page.rows
    assert page.held is None


async def test_filters_and_pages_of_facts(rig: Rig) -> None:
    await rig.publish(order(workflow="refund"))
    await rig.process(
        rig.start_record("A"),
        rig.start_record("B", tenant="other"),
        rig.start_record("C", workflow="refund"),
    )
    await rig.operations.perform("acme", rig.saga("A"), pause("p"))
    pages = FactPages(rig.database)

    async def keys(wanted: Wanted) -> set[str | None]:
        page = await pages.facts(wanted, 1_000)
        return {row.business_key for row in page.rows}

    now = datetime.now(UTC)
    assert await keys(Wanted()) == {"A", "B", "C"}
    assert await keys(Wanted(tenants=["acme"])) == {"A", "C"}
    assert await keys(Wanted(tenants=[])) == set()
    assert await keys(Wanted(workflow="refund")) == {"C"}
    assert await keys(Wanted(saga_id=rig.saga("A"))) == {"A"}
    assert await keys(Wanted(saga_id=rig.saga("A"), tenants=["other"])) == set()
    assert await keys(Wanted(actor="ada")) == {"A"}
    assert await keys(Wanted(since=now - timedelta(hours=1), until=now + timedelta(hours=1)))
    assert await keys(Wanted(since=now + timedelta(hours=1))) == set()
    assert await keys(Wanted(until=now - timedelta(hours=1))) == set()
    page = await pages.facts(Wanted(kind="control"), 1_000)
    assert [(row.body or {})["to"] for row in page.rows] == ["PAUSED"]
    everything = (await pages.facts(Wanted(), 1_000)).rows
    collected: list[FactRow] = []
    cursor, more = None, True
    while more:
        page = await pages.facts(Wanted(), 2, cursor)
        collected += page.rows
        cursor, more = page.cursor, page.more
    assert tuple(collected) == everything


async def test_a_filter_that_fits_nothing_reads_no_more_than_a_page_may(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagabus_orchestrator.audit.pages.MAX_LOOKED", 3)
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(3)))
    reader, pages = Reader(rig, Wanted(actor="nobody"), limit=100), 0
    more = True
    while more:
        page = await FactPages(rig.database).facts(Wanted(actor="nobody"), 100, reader.cursor)
        reader.cursor, more = page.cursor, page.more
        assert page.rows == ()
        pages += 1
    count = await rig.value("select count(*) from journal")
    assert isinstance(count, int)
    assert pages >= count // 3


async def test_bad_cursors_and_limits_are_refused(rig: Rig) -> None:
    pages = FactPages(rig.database)
    for cursor in ("", "!", "MQ", "x" * 500, "LTEuMC4wLjA"):
        with pytest.raises(InvalidValue) as found:
            await pages.facts(Wanted(), 10, cursor)
        assert found.value.code == "invalid_cursor"
    for limit in (0, 1_001):
        with pytest.raises(InvalidValue) as refused:
            await pages.audit(Wanted(), limit)
        assert refused.value.code == "invalid_limit"


async def test_archived_sagas_keep_their_facts_until_the_month_is_dropped(
    rig: Rig, shell: Shell
) -> None:
    sent = await rig.process(rig.start_record())
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    archive = Archive(rig.database, UpkeepEvents(CollectorRegistry()), ArchivePolicy())
    assert await archive.move(0) == 1
    said = await shell("audit", "facts", "--where", "tenant=acme")
    assert {row["business_key"] for row in said["rows"]} == {"ORD-1"}
    assert said["begins_on"] == datetime.now(UTC).date().replace(day=1).isoformat()
    assert said["held"] is None


async def test_a_fact_that_was_tampered_with_does_not_stop_the_pages(rig: Rig) -> None:
    await rig.process(rig.start_record())
    await rig.run("update journal set fact = '\xff' where ordinal = 0")
    page = await FactPages(rig.database).facts(Wanted(), 100)
    assert page.rows[0].body is None
    assert (await FactPages(rig.database).facts(Wanted(kind="started"), 100)).rows == ()
