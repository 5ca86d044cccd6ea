"""Proves journals: against themselves, the snapshots, the archive, and what was published.

Reads only, in pages of sagas, each in one short transaction that sees one moment; memory does not
grow with the tables.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, TypeAlias

import asyncpg

from sagabus_orchestrator.audit.chain import Break, Chain, Fault, Link
from sagabus_orchestrator.upkeep.body import Body, unpack
from sagabus_store import Connection, Database, Queries

__all__ = ["PublishedHead", "Report", "Scope", "Verifier"]

SQL = Queries("sagabus_orchestrator", "sql/verify.sql", "sql/archive.sql")
_PAGE: Final = 50
_PREFETCH: Final = 500
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
_MOST_BREAKS: Final = 100


@dataclass(frozen=True, slots=True)
class Scope:
    """What to prove: one saga, those that changed at or after `since`, or (both None) all."""

    saga_id: str | None = None
    since: datetime | None = None

    def holds(self, saga_id: str, at: datetime | None) -> bool:
        """Say whether a saga, last changed `at`, is meant."""
        if self.saga_id is not None:
            return saga_id == self.saga_id
        return self.since is None or at is None or at >= self.since


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """What a lifecycle event said: at this revision the journal had this head."""

    saga_id: str
    revision: int
    head: str
    at: datetime


@dataclass(slots=True)
class Report:
    """What was proved. `breaks` holds the first hundred, one per saga; `broken` counts all.

    `announced`: heads that were published by what the journals say; those that Kafka no longer
    keeps could not be compared. `deleted`: ended sagas that were deleted from the archive.
    """

    sagas: int = 0
    facts: int = 0
    archived: int = 0
    deleted: int = 0
    announced: int = 0
    compared: int = 0
    broken: int = 0
    breaks: list[Break] = field(default_factory=list)

    @property
    def not_compared(self) -> int:
        """How many published heads nobody holds any more to compare with."""
        return max(self.announced - self.compared, 0)

    def add(self, found: Break) -> None:
        """Note a break; of the same saga only the first is kept."""
        if any(known.saga_id == found.saga_id for known in self.breaks):
            return
        self.broken += 1
        if len(self.breaks) < _MOST_BREAKS:
            self.breaks.append(found)


Progress: TypeAlias = Callable[[Report], None]


class Verifier:
    """Recomputes every chain in scope from the stored bytes."""

    def __init__(self, database: Database, scope: Scope, progress: Progress) -> None:
        self._database = database
        self._scope = scope
        self._progress = progress
        self.report = Report()

    async def chains(self) -> None:
        """Prove journals and archive bodies against themselves and the rows of their sagas."""
        last = _FIRST_ID
        while True:
            async with self._database.transaction(isolation="repeatable_read") as conn:
                found = await self._page(conn, last)
                wanted = [r for r in found if self._scope.holds(str(r["id"]), r["updated_at"])]
                await self._prove(conn, wanted)
            self._progress(self.report)
            if len(found) < _PAGE:
                return
            last = str(found[-1]["id"])

    async def _page(self, conn: Connection, last: str) -> list[asyncpg.Record]:
        if self._scope.saga_id is not None:
            return await conn.fetch(SQL["chain_of"], self._scope.saga_id)
        return await conn.fetch(SQL["chain_page"], last, _PAGE)

    async def _prove(self, conn: Connection, rows: Sequence[asyncpg.Record]) -> None:
        chains: dict[str, Chain] = {}
        archived: dict[str, Mapping[tuple[int, int], bytes]] = {}
        for row in rows:
            saga_id = str(row["id"])
            if row["revision"] is not None:
                chains[saga_id] = Chain(saga_id)
            elif row["body"] is not None:
                archived[saga_id] = self._prove_archived(saga_id, row)
            else:
                self._note_gone(saga_id, row["final_status"])
        ids = [*chains, *archived]
        async for fact in conn.cursor(SQL["journals_of"], ids, prefetch=_PREFETCH):
            saga_id = str(fact["saga_id"])
            if saga_id in chains:
                chains[saga_id].take(_link(fact))
            else:
                self._compare_with_archive(saga_id, archived[saga_id], fact)
        for row in rows:
            chain = chains.get(str(row["id"]))
            if chain is not None:
                self._close(chain, row["revision"], row["journal_head"])

    def _close(self, chain: Chain, revision: int, head: bytes) -> None:
        chain.end(revision, bytes(head))
        self.report.sagas += 1
        self.report.facts += chain.facts
        self.report.announced += chain.announced
        if chain.broken is not None:
            self.report.add(chain.broken)

    def _prove_archived(self, saga_id: str, row: asyncpg.Record) -> Mapping[tuple[int, int], bytes]:
        chain, body = Chain(saga_id), unpack(row["body"])
        for fact in body.facts:
            chain.take(Link(fact.revision, fact.ordinal, fact.fact, fact.head))
        self._close(chain, row["archived_revision"], row["archived_head"])
        self.report.archived += 1
        return {(fact.revision, fact.ordinal): fact.fact for fact in body.facts}

    def _compare_with_archive(
        self, saga_id: str, facts: Mapping[tuple[int, int], bytes], row: asyncpg.Record
    ) -> None:
        place = (row["revision"], row["ordinal"])
        if facts.get(place) != bytes(row["fact"]):
            named = "/".join(map(str, place))
            expected = f"the fact {named} of the archive" if place in facts else "no such fact"
            self.report.add(
                Break(saga_id, Fault.ARCHIVE_DIFFERS, place[0], expected, f"another {named}")
            )

    def _note_gone(self, saga_id: str, final_status: str | None) -> None:
        if final_status is not None:
            self.report.deleted += 1
            return
        self.report.sagas += 1
        self.report.add(Break(saga_id, Fault.SAGA_MISSING, None, "a saga at work", "none"))

    async def published(self, batches: AsyncIterable[Sequence[PublishedHead]]) -> None:
        """Compare what lifecycle events said with the heads that are stored now."""
        async for batch in batches:
            heads = [head for head in batch if self._scope.holds(head.saga_id, head.at)]
            if heads:
                await self._compare(heads)
                self._progress(self.report)

    async def _compare(self, heads: Sequence[PublishedHead]) -> None:
        ids = sorted({head.saga_id for head in heads})
        async with self._database.transaction(isolation="repeatable_read") as conn:
            stored = await _stored_heads(conn, heads, ids)
            gone = {str(row["id"]): row for row in await conn.fetch(SQL["gone"], ids)}
        for head in heads:
            row = gone.get(head.saga_id)
            if row is not None and row["final_status"] is not None:
                continue  # ended, archived, and deleted as the law says: counted as such
            self.report.compared += 1
            found = stored.get((head.saga_id, head.revision), "nothing")
            if row is not None:
                expected = f"head {head.head}"
                self.report.add(
                    Break(head.saga_id, Fault.SAGA_MISSING, head.revision, expected, "no saga")
                )
            elif found != head.head:
                fault = Fault.OTHER_THAN_PUBLISHED
                self.report.add(Break(head.saga_id, fault, head.revision, head.head, found))


async def _stored_heads(
    conn: Connection, heads: Sequence[PublishedHead], ids: Sequence[str]
) -> dict[tuple[str, int], str]:
    wanted = [head.saga_id for head in heads], [head.revision for head in heads]
    found = {
        (str(row["saga_id"]), int(row["revision"])): bytes(row["head"]).hex()
        for row in await conn.fetch(SQL["heads_at"], *wanted)
    }
    for row in await conn.fetch(SQL["archived_bodies"], ids):
        found.update(_heads_of(str(row["id"]), unpack(row["body"])))
    return found


def _heads_of(saga_id: str, body: Body) -> dict[tuple[str, int], str]:
    """Return the head behind the last fact of every revision."""
    return {(saga_id, fact.revision): fact.head.hex() for fact in body.facts}


def _link(row: asyncpg.Record) -> Link:
    return Link(row["revision"], row["ordinal"], bytes(row["fact"]), bytes(row["head"]))
