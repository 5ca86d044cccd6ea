"""Reading sagas for people and tools: lists by keyset, one saga with its journal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from sagabus_core.engine import Snapshot, from_json
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages.strict_json import parse_strict
from sagabus_orchestrator import cursors
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.upkeep.body import ArchivedFact, unpack
from sagabus_store import Connection, Database, Queries

__all__ = ["Fact", "Page", "SagaDetail", "SagaFilter", "SagaReader", "SagaSummary", "StoredFact"]

SQL = Queries("sagabus_orchestrator", "sql/queries.sql")
ARCHIVE = Queries("sagabus_orchestrator", "sql/archive.sql")
MAX_PAGE: Final = 1_000
_SAGA_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class SagaFilter:
    """Which sagas to list; None does not restrict. `key_prefix`: how the business key begins.

    `created_before` is not part of the window. `archived`: those that were archived too.
    """

    tenant: str | None = None
    workflow: str | None = None
    statuses: Sequence[SagaStatus] | None = None
    key_prefix: str | None = None
    tenants: Sequence[str] | None = None
    created_from: datetime | None = None
    created_before: datetime | None = None
    archived: bool = False

    @property
    def owners(self) -> Sequence[str] | None:
        """The tenants that are meant: `tenant` where it is one of `tenants`."""
        if self.tenant is None:
            return self.tenants
        return [self.tenant] if self.tenants is None or self.tenant in self.tenants else []


@dataclass(frozen=True, slots=True)
class SagaSummary:
    """One saga as lists show it."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    version: int
    status: str
    control: str
    revision: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None = None

    @classmethod
    def of(cls, row: asyncpg.Record) -> SagaSummary:
        """Return the summary of a row."""
        return cls(
            saga_id=str(row["id"]),
            tenant=row["tenant"],
            workflow=row["workflow"],
            business_key=row["business_key"],
            version=row["definition_version"],
            status=row["status"],
            control=row["control"],
            revision=row["revision"],
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            archived_at=row.get("archived_at"),
        )


@dataclass(frozen=True, slots=True)
class Page:
    """Sagas, newest first; `next_cursor` is None on the last page."""

    sagas: tuple[SagaSummary, ...]
    next_cursor: str | None


@dataclass(frozen=True, slots=True)
class Fact:
    """One journal fact as it was stored."""

    revision: int
    ordinal: int
    body: Mapping[str, Any]
    recorded_at: datetime


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One journal row: the bytes that the chain of digests covers, and the head behind it."""

    revision: int
    ordinal: int
    fact: bytes
    head: str
    recorded_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record) -> StoredFact:
        """Return a row of the journal."""
        place = (row["revision"], row["ordinal"])
        return cls(*place, bytes(row["fact"]), bytes(row["head"]).hex(), row["recorded_at"])


@dataclass(frozen=True, slots=True)
class SagaDetail:
    """One saga with everything that is known about it; `archived_at` None: in the hot tables."""

    summary: SagaSummary
    definition_digest: str
    journal_head: str
    snapshot: Snapshot
    facts: tuple[Fact, ...]
    archived_at: datetime | None = None


class SagaReader:
    """Reads the orchestrator's tables; changes nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, wanted: SagaFilter, limit: int, cursor: str | None = None) -> Page:
        """Return up to `limit` sagas below a cursor. Raises `InvalidValue` for a bad cursor.

        A saga keeps its place when it goes to the archive: with `archived` no page misses it.
        """
        if not 1 <= limit <= MAX_PAGE:
            raise InvalidValue("invalid_limit", f"a page has 1 to {MAX_PAGE} sagas")
        created_at, saga_id = _read_cursor(cursor) if cursor is not None else (None, None)
        statuses = [status.value for status in wanted.statuses] if wanted.statuses else None
        async with self._database.connection() as conn:
            rows = await conn.fetch(
                SQL["list_all_sagas" if wanted.archived else "list_sagas"],
                wanted.owners,
                wanted.workflow,
                statuses,
                wanted.key_prefix,
                wanted.created_from,
                wanted.created_before,
                created_at,
                saga_id,
                limit + 1,
            )
        sagas = tuple(SagaSummary.of(row) for row in rows[:limit])
        return Page(sagas, _cursor_of(sagas[-1]) if len(rows) > limit else None)

    async def find(
        self, name: str, tenant: str | None = None, workflow: str | None = None
    ) -> SagaDetail:
        """Return the saga of an id or a business key, as of one moment.

        Raises `NotFound`, and `Refused` (`ambiguous_key`) where several sagas have the key.
        """
        async with self._database.transaction(isolation="repeatable_read") as conn:
            saga_id = name if _SAGA_ID.fullmatch(name) else None
            owners = None if tenant is None else [tenant]
            saga_id = saga_id or await _by_key(conn, name, owners, workflow)
            row = await conn.fetchrow(SQL["find_saga"], saga_id)
            facts = await conn.fetch(SQL["read_journal"], saga_id) if row is not None else []
            archived = await conn.fetchrow(ARCHIVE["find_archived"], saga_id) if not row else None
        found = row or archived
        if found is None or tenant not in {None, found["tenant"]}:
            raise NotFound("not_found", f"there is no saga {name}")
        if archived is not None:
            body = unpack(archived["body"])
            return _detail(archived, body.snapshot, map(_archived_fact, body.facts))
        return _detail(found, found["snapshot"], map(_fact, facts))

    async def by_key(
        self, business_key: str, workflow: str | None, tenants: Sequence[str] | None
    ) -> str:
        """Return the id of the saga of a business key among these tenants (None: all).

        Raises `NotFound`, and `Refused` (`ambiguous_key`).
        """
        async with self._database.connection() as conn:
            return await _by_key(conn, business_key, tenants, workflow)

    async def head(self, saga_id: str) -> SagaDetail:
        """Return the saga of an id without its journal. Raises `NotFound`."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["find_saga"], saga_id)
            if row is not None:
                return _detail(row, row["snapshot"], ())
            archived = await conn.fetchrow(ARCHIVE["find_archived"], saga_id)
        if archived is None:
            raise NotFound("not_found", f"there is no saga {saga_id}")
        return _detail(archived, unpack(archived["body"]).snapshot, ())

    async def facts(
        self, saga: SagaDetail, beyond: tuple[int, int], limit: int
    ) -> list[StoredFact]:
        """Return the next facts of a saga beyond a revision and ordinal, byte for byte."""
        saga_id = saga.summary.saga_id
        async with self._database.transaction(isolation="repeatable_read") as conn:
            archived = await conn.fetchrow(ARCHIVE["find_archived"], saga_id)
            if archived is None:
                rows = await conn.fetch(SQL["read_journal_page"], saga_id, *beyond, limit)
                return [StoredFact.of(row) for row in rows]
        body = unpack(archived["body"])
        left = [f for f in body.facts if (f.revision, f.ordinal) > beyond]
        return [
            StoredFact(f.revision, f.ordinal, f.fact, f.head.hex(), f.recorded_at)
            for f in left[:limit]
        ]

    async def counts(self, workflow: str | None = None) -> dict[str, int]:
        """Return how many sagas stand where."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["count_by_status"], workflow)
        return {row["status"]: row["sagas"] for row in rows}


def _detail(row: asyncpg.Record, snapshot: bytes, facts: Iterable[Fact]) -> SagaDetail:
    return SagaDetail(
        summary=SagaSummary.of(row),
        definition_digest=row["definition_digest"],
        journal_head=bytes(row["journal_head"]).hex(),
        snapshot=from_json(_object(snapshot)),
        facts=tuple(facts),
        archived_at=row.get("archived_at"),
    )


def _fact(row: asyncpg.Record) -> Fact:
    return Fact(row["revision"], row["ordinal"], _object(row["fact"]), row["recorded_at"])


def _archived_fact(fact: ArchivedFact) -> Fact:
    return Fact(fact.revision, fact.ordinal, _object(fact.fact), fact.recorded_at)


async def _by_key(
    conn: Connection, business_key: str, tenants: Sequence[str] | None, workflow: str | None
) -> str:
    rows = await conn.fetch(SQL["find_by_business_key"], business_key, tenants, workflow)
    if not rows:
        raise NotFound("not_found", f"there is no saga with the business key {business_key}")
    if len(rows) > 1:
        raise Refused(
            "ambiguous_key",
            f"several sagas have the key {business_key}: name tenant and workflow, or the id",
        )
    return str(rows[0]["id"])


def _object(stored: bytes) -> dict[str, Any]:
    value = parse_strict(bytes(stored))
    if not isinstance(value, dict):
        raise InvalidValue("not_json", "the stored document is no JSON object")
    return value


def _cursor_of(saga: SagaSummary) -> str:
    return cursors.written(f"{saga.created_at.astimezone(UTC).isoformat()} {saga.saga_id}")


def _read_cursor(cursor: str) -> tuple[datetime, str]:
    created_at, _, saga_id = cursors.read(cursor).partition(" ")
    return cursors.moment(created_at), cursors.saga_id(saga_id)
