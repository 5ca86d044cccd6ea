"""Changes of status as they become certain: one poller for any number of streams.

The source is the journal below a settled fence (`audit.fence`), in the order of its numbers: no
change is skipped however late its transaction commits, and those of one saga come in their order.
A stream that is resumed reads what it missed from the journal, then goes on with the poller.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import asyncpg

from sagabus_core.engine import FactKind
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages.strict_json import load
from sagabus_orchestrator.api.errors import EventsGone
from sagabus_orchestrator.audit.fence import Fence, is_settled, raise_fence
from sagabus_runtime import Pulse
from sagabus_store import Connection, Database, Queries

__all__ = ["Change", "Feed", "Followed", "Position"]

SQL = Queries("sagabus_orchestrator", "sql/events.sql")
MAX_LOOKED: Final = 5_000
BEGINNING: Final = 0


@dataclass(frozen=True, slots=True)
class Change:
    """A saga began or changed its status; `seq` is the id of the event."""

    seq: int
    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    revision: int
    before: SagaStatus | None
    status: SagaStatus
    reason: str | None
    journal_head: str
    recorded_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record) -> Change:
        """Return the change of a row."""
        fact = load(bytes(row["fact"]))
        started = fact["kind"] == FactKind.STARTED
        return cls(
            seq=row["seq"],
            saga_id=str(row["saga_id"]),
            tenant=row["tenant"],
            workflow=row["workflow"],
            business_key=row["business_key"],
            revision=row["revision"],
            before=None if started else SagaStatus(fact["from"]),
            status=SagaStatus.RUNNING if started else SagaStatus(fact["to"]),
            reason=fact.get("reason"),
            journal_head=bytes(row["head"]).hex(),
            recorded_at=row["recorded_at"],
        )


@dataclass(frozen=True, slots=True)
class Position:
    """Nothing up to here concerns the stream any more: a sign of life with an id to resume at."""

    seq: int


@dataclass(frozen=True, slots=True)
class Followed:
    """What a stream is about; None does not restrict."""

    saga_id: str | None = None
    tenants: Sequence[str] | None = None
    workflow: str | None = None
    statuses: frozenset[SagaStatus] | None = None

    def fits(self, change: Change) -> bool:
        """Whether a change is part of the stream."""
        return (
            self.saga_id in {None, change.saga_id}
            and (self.tenants is None or change.tenant in self.tenants)
            and self.workflow in {None, change.workflow}
            and (self.statuses is None or change.status in self.statuses)
        )


class _Listener:
    """What the poller has for one stream; a stream that does not keep up is ended."""

    MOST: Final = 1_000

    def __init__(self, followed: Followed) -> None:
        self.followed = followed
        self._ended = False
        self._changes: deque[Change] = deque()
        self._news = asyncio.Event()

    def tell(self, changes: Sequence[Change]) -> None:
        self._changes.extend(change for change in changes if self.followed.fits(change))
        if len(self._changes) > self.MOST:
            self.end()
        elif self._changes:
            self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    def has_ended(self) -> bool:
        return self._ended

    async def next(self, timeout_s: float) -> Change | None:
        """Return the next change, or None after the time or at the end."""
        if not self._changes and not self._ended:
            self._news.clear()
            try:
                async with asyncio.timeout(timeout_s):
                    await self._news.wait()
            except TimeoutError:
                return None
        return None if self._ended or not self._changes else self._changes.popleft()


class Feed:
    """Follows the journal while somebody listens."""

    ROUND_MS: Final = 100
    ALIVE_S: Final = 15.0
    """How often a silent stream shows that it lives, so that proxies keep it."""

    def __init__(self, database: Database, *, alive_s: float = ALIVE_S) -> None:
        self._database = database
        self._alive_s = alive_s
        self._listeners: set[_Listener] = set()
        self._wanted = asyncio.Event()
        self._fences: deque[Fence] = deque()
        self._position: int | None = None
        self._stopping = False

    async def follow(
        self, followed: Followed, behind: int | None, life_s: float
    ) -> AsyncGenerator[Change | Position, None]:
        """Yield changes behind an id (None: those from now on), for at most `life_s` seconds.

        Ends early when this replica stops or the reader does not keep up: resume then.
        """
        end_at = asyncio.get_running_loop().time() + life_s
        listener = _Listener(followed)
        begin = await self._join(listener)
        try:
            if behind is not None and behind < begin:
                async for missed in self._missed(followed, behind, begin):
                    yield missed
            yield Position(begin)
            while not listener.has_ended() and asyncio.get_running_loop().time() < end_at:
                change = await listener.next(self._alive_s)
                if change is not None:
                    yield change
                elif not listener.has_ended() and self._position is not None:
                    # Everything up to here was told or did not fit: none waits in the listener.
                    yield Position(self._position)
        finally:
            self._listeners.discard(listener)

    async def require_kept(self, behind: int) -> None:
        """Raise `EventsGone` if changes behind an id may be kept no longer."""
        async with self._database.connection() as conn:
            first = await conn.fetchval(SQL["first_seq"])
        if behind > BEGINNING and first is not None and first > behind + 1:
            raise EventsGone(
                "events_gone",
                "changes behind this id are in the archive: read the sagas anew, then follow",
            )

    async def run(self, pulse: Pulse) -> None:
        """Follow until told to stop: the `run` of a supervised loop."""
        try:
            while not pulse.stopping:
                pulse.beat()
                if not self._listeners and not self._wanted.is_set():
                    self._forget()
                    await self._somebody()
                    continue
                await self.look()
                await pulse.pause(self.ROUND_MS)
        finally:
            self._stopping = pulse.stopping
            for listener in self._listeners:
                listener.end()
            self._forget()

    async def look(self) -> None:
        """Raise a fence, and tell what stands below those that have settled."""
        async with self._database.connection() as conn:
            self._fences.append(await raise_fence(conn, "journal"))
            settled = await self._settled(conn)
            if settled is None:
                return
            if self._position is None:
                self._position = settled
            else:
                await self._tell(conn, settled)
        self._wanted.clear()

    async def _settled(self, conn: Connection) -> int | None:
        found: int | None = None
        while self._fences and await is_settled(conn, self._fences[0]):
            found = self._fences.popleft().seq
        return found

    async def _tell(self, conn: Connection, bound: int) -> None:
        position = self._position or BEGINNING
        while position < bound:
            changes, position = await _page(conn, position, bound, Followed())
            for listener in tuple(self._listeners):
                listener.tell(changes)
            self._position = position

    async def _join(self, listener: _Listener) -> int:
        """Let a listener be told everything behind the position that is returned."""
        if self._stopping:
            listener.end()
        while self._position is None and not self._stopping:
            self._wanted.set()
            await asyncio.sleep(self.ROUND_MS / 2_000)
        self._listeners.add(listener)
        return self._position or BEGINNING

    async def _missed(self, followed: Followed, behind: int, bound: int) -> AsyncIterator[Change]:
        position = behind
        while position < bound:
            async with self._database.connection() as conn:
                changes, position = await _page(conn, position, bound, followed)
            for change in changes:
                if followed.fits(change):
                    yield change

    async def _somebody(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                await self._wanted.wait()
        except TimeoutError:
            return

    def _forget(self) -> None:
        self._position = None
        self._fences.clear()


async def _page(
    conn: Connection, behind: int, bound: int, followed: Followed
) -> tuple[list[Change], int]:
    """Return changes in order, and up to where nothing is left out."""
    if followed.saga_id is not None:
        rows = await conn.fetch(SQL["status_of_saga"], followed.saga_id, behind, bound)
        return list(_changes(rows)), bound
    rows = await conn.fetch(
        SQL["status_page"], behind, bound, followed.tenants, followed.workflow, MAX_LOOKED
    )
    full = rows and rows[0]["looked"] == MAX_LOOKED
    return list(_changes(rows)), rows[0]["looked_to"] if full else bound


def _changes(rows: Sequence[asyncpg.Record]) -> Iterator[Change]:
    return (Change.of(row) for row in rows if row["seq"] is not None)
