"""Pages over journal and audit by their global numbers, resumable while rows are appended.

A page holds only rows below a settled fence (see `fence`), in the order of their numbers. So a
reader that goes on at each page's cursor sees every row exactly once, and the facts of one saga in
the order of its revisions, whatever commits meanwhile and however late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any, Final, Generic, Literal, TypeVar

import asyncpg

from sagabus_core.errors import InvalidValue, SagabusError
from sagabus_messages.strict_json import dump, parse_strict
from sagabus_orchestrator.audit.cursor import BEGINNING, Cursor
from sagabus_orchestrator.audit.fence import (
    SQL,
    Fence,
    HeldBack,
    Stream,
    held_by,
    is_settled,
    raise_fence,
    settle,
)
from sagabus_store import Connection, Database, now_ms

__all__ = ["AuditPage", "AuditRow", "FactPages", "FactRow", "FactsPage", "Page", "Wanted"]

MAX_PAGE: Final = 1_000
MAX_LOOKED: Final = 5_000
"""Most rows that one page looks at, so that a filter which fits nothing scans no whole table."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which rows to serve; None does not restrict. `outcome` is of the audit alone.

    `kind`: of the fact or of the audited operation. `since` and `until` are about the time of
    recording, `until` excluded.
    """

    tenants: Sequence[str] | None = None
    workflow: str | None = None
    saga_id: str | None = None
    kind: str | None = None
    actor: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    outcome: Literal["done", "refused"] | None = None


@dataclass(frozen=True, slots=True)
class FactRow:
    """One journal fact with its number; `body` is None where the stored bytes are no JSON object.

    `tenant` and what follows are None for a saga that is in neither table any more.
    """

    seq: int
    saga_id: str
    tenant: str | None
    workflow: str | None
    business_key: str | None
    revision: int
    ordinal: int
    body: Mapping[str, Any] | None
    head: str
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One management operation, done or refused; see the table for the members."""

    seq: int
    kind: str
    actor: str
    permission: str
    tenant: str
    workflow: str
    saga_id: str | None
    subject: str
    operation_id: str | None
    reason: str
    expected: str | None
    outcome: str
    code: str
    detail: str
    withheld: int
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Rows in order, and where to go on: `cursor` is always there, also on the newest page.

    `more`: there is more to read at once. `held`: newer rows exist or may, and cannot be served
    before a transaction that runs now has ended. `begins_on`: the first day of the journal; facts
    of earlier months are gone from it and stay with their archived sagas. None: nothing is gone.
    """

    rows: tuple[T, ...]
    cursor: str
    more: bool
    held: HeldBack | None = None
    begins_on: date | None = None


FactsPage = Page[FactRow]
AuditPage = Page[AuditRow]


class FactPages:
    """Reads pages; changes nothing."""

    def __init__(self, database: Database, patience_ms: int = 500) -> None:
        """`patience_ms`: how long a page may wait for transactions that run as it is asked for."""
        self._database = database
        self._patience_ms = patience_ms

    async def facts(self, wanted: Wanted, limit: int, cursor: str | None = None) -> FactsPage:
        """Return up to `limit` journal facts behind a cursor; possibly none although there is more.

        Raises `InvalidValue` (`invalid_cursor`, `invalid_limit`).
        """
        begin = _begin(cursor, limit)
        pieces = (_piece("kind", wanted.kind), _piece("actor", wanted.actor))
        async with self._database.connection() as conn:
            first = await conn.fetchrow(SQL["journal_begin"], wanted.since)
            if cursor is None and first is not None and first["first_seq"] is not None:
                begin = Cursor(first["first_seq"] - 1)
            bound = await self._bound(conn, "journal", begin)
            values = (*_common(wanted), *pieces, limit, MAX_LOOKED, wanted.saga_id)
            found = await conn.fetch(SQL["journal_page"], begin.seq, bound.seq, *values)
            place = _place(found, begin, bound, limit)
            held = await bound.told(conn, place)
        rows = tuple(fact for row in _matched(found) if _fits(fact := _fact(row), wanted))
        begins_on = first["first_day"] if first is not None else None
        return Page(rows, str(place), _is_more(place, bound), held, begins_on)

    async def audit(self, wanted: Wanted, limit: int, cursor: str | None = None) -> AuditPage:
        """Return up to `limit` audit rows behind a cursor. Raises as `facts` does."""
        begin = _begin(cursor, limit)
        own = (wanted.kind, wanted.actor, wanted.saga_id, wanted.outcome)
        async with self._database.connection() as conn:
            bound = await self._bound(conn, "audit", begin)
            found = await conn.fetch(
                SQL["audit_page"], begin.seq, bound.seq, *_common(wanted), *own, limit, MAX_LOOKED
            )
            place = _place(found, begin, bound, limit)
            held = await bound.told(conn, place)
        rows = tuple(_audited(row) for row in _matched(found))
        return Page(rows, str(place), _is_more(place, bound), held)

    async def _bound(self, conn: Connection, stream: Stream, begin: Cursor) -> _Bound:
        """Return up to where this page may go, and the fence that its successor will use."""
        fresh, before = await raise_fence(conn, stream), begin.fence
        if await is_settled(conn, fresh):
            return _Bound(fresh.seq, fresh)
        before_is_settled = before is not None and await is_settled(conn, before)
        if before is not None and before_is_settled and before.seq > begin.seq:
            return _Bound(before.seq, fresh)
        if await settle(conn, fresh, self._patience_ms):
            return _Bound(fresh.seq, fresh)
        known = await conn.fetchval(SQL["settled"], stream)
        # The older fence of the reader stays: one that is always renewed never settles.
        return _Bound(known, fresh if before is None or before_is_settled else before, held=True)


@dataclass(frozen=True, slots=True)
class _Bound:
    """The last number that may be served; `held`: the next fence did not settle in time."""

    seq: int
    next_fence: Fence
    held: bool = False

    async def told(self, conn: Connection, place: Cursor) -> HeldBack | None:
        """Return who holds the page back, if there is anything to hold back."""
        if not self.held or self.next_fence.seq <= place.seq:
            return None
        return await held_by(conn, max(await now_ms(conn) - self.next_fence.at_ms, 0))


def _begin(cursor: str | None, limit: int) -> Cursor:
    if not 1 <= limit <= MAX_PAGE:
        raise InvalidValue("invalid_limit", f"a page has 1 to {MAX_PAGE} rows")
    return Cursor.parse(cursor) if cursor is not None else BEGINNING


def _common(wanted: Wanted) -> tuple[object, ...]:
    tenants = list(wanted.tenants) if wanted.tenants is not None else None
    return (tenants, wanted.workflow, wanted.since, wanted.until)


def _place(found: Sequence[asyncpg.Record], begin: Cursor, bound: _Bound, limit: int) -> Cursor:
    """Return where the next page begins: nothing between this one's rows and there is left out."""
    matched = _matched(found)
    if len(matched) == limit:
        return Cursor(matched[-1]["seq"], bound.next_fence)
    if found and found[0]["looked"] == MAX_LOOKED:
        return Cursor(found[0]["looked_to"], bound.next_fence)
    return Cursor(max(begin.seq, bound.seq), bound.next_fence)


def _is_more(place: Cursor, bound: _Bound) -> bool:
    return place.seq < bound.seq


def _matched(found: Sequence[asyncpg.Record]) -> list[asyncpg.Record]:
    return [row for row in found if row["seq"] is not None]


def _piece(name: str, value: str | None) -> bytes | None:
    """Return what the stored bytes hold if the fact has this member: they are compact JSON."""
    return None if value is None else dump({name: value})[1:-1]


def _fits(fact: FactRow, wanted: Wanted) -> bool:
    """Look at the members themselves: the same bytes may also stand inside of an output."""
    asked = {"kind": wanted.kind, "actor": wanted.actor}
    body = fact.body or {}
    return all(value is None or body.get(name) == value for name, value in asked.items())


def _fact(row: asyncpg.Record) -> FactRow:
    return FactRow(
        seq=row["seq"],
        saga_id=str(row["saga_id"]),
        tenant=row["tenant"],
        workflow=row["workflow"],
        business_key=row["business_key"],
        revision=row["revision"],
        ordinal=row["ordinal"],
        body=_object(row["fact"]),
        head=bytes(row["head"]).hex(),
        recorded_at=row["recorded_at"],
    )


def _object(stored: bytes) -> Mapping[str, Any] | None:
    try:
        value = parse_strict(bytes(stored))
    except SagabusError:
        return None  # somebody tampered with it: `sagabus audit verify` says so
    return value if isinstance(value, dict) else None


def _audited(row: asyncpg.Record) -> AuditRow:
    values = {name: row[name] for name in AuditRow.__dataclass_fields__}
    saga_id = row["saga_id"]
    return AuditRow(**{**values, "saga_id": None if saga_id is None else str(saga_id)})
