"""Proves journals: against themselves, snapshots, archive, audit, and what was published.

Reads only, in pages of sagas, each in one short transaction that sees one moment; memory does not
grow with the tables.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

import asyncpg

from sagabus_orchestrator.audit.chain import Link
from sagabus_orchestrator.audit.findings import Break, Fault, Progress, Report, Scope
from sagabus_orchestrator.audit.proof import Case, Fact
from sagabus_orchestrator.audit.witness import Testimony, Witness
from sagabus_store import Connection, Database, Queries

__all__ = ["Verifier"]

SQL = Queries("sagabus_orchestrator", "sql/verify.sql")
_PAGE: Final = 50
_PREFETCH: Final = 500
_FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"


class Verifier:
    """Recomputes every chain in scope from the stored bytes.

    `witness`: what was published, gathered before (see there); None: compare with nothing.
    """

    def __init__(
        self,
        database: Database,
        scope: Scope,
        progress: Progress,
        witness: Witness | None = None,
    ) -> None:
        self._database = database
        self._scope = scope
        self._since_ms = 0 if scope.since is None else int(scope.since.timestamp() * 1000)
        self._progress = progress
        self._witness = witness
        self._holds: list[uuid.UUID] = []

    async def prove(self) -> Report:
        """Prove every saga in scope, of whatever table or published event knows of it."""
        report = Report()
        behind, limit = _FIRST_ID, _PAGE
        if self._scope.saga_id is not None:
            behind, limit = _before(self._scope.saga_id), 1
        while True:
            async with self._database.transaction(isolation="repeatable_read") as conn:
                rows = await conn.fetch(SQL["chain_page"], behind, limit)
                if self._scope.saga_id is not None:
                    rows = [row for row in rows if str(row["id"]) == self._scope.saga_id]
                ended = len(rows) < _PAGE
                upto = None if ended else str(rows[-1]["id"])
                testimonies = self._witness.between(behind, upto) if self._witness else {}
                await self._prove(conn, rows, testimonies, report)
            self._progress(report)
            if upto is None:
                return report
            behind = upto

    async def _prove(
        self,
        conn: Connection,
        rows: Sequence[asyncpg.Record],
        testimonies: Mapping[str, Testimony],
        report: Report,
    ) -> None:
        cases: dict[str, Case] = {}
        for row in rows:
            saga_id = str(row["id"])
            if not row["is_hot"] and not row["is_archived"]:
                await self._prove_gone(conn, row, testimonies.get(saga_id), report)
            elif self._is_meant(row, saga_id in testimonies):
                cases[saga_id] = Case(row, testimonies.get(saga_id) or Testimony())
        for saga_id in sorted(testimonies.keys() - {str(row["id"]) for row in rows}):
            _note_missing(saga_id, testimonies[saga_id], report)
        if not cases:
            return
        async for row in conn.cursor(SQL["facts_of"], list(cases), prefetch=_PREFETCH):
            cases[str(row["saga_id"])].take(_fact(row))
        audited = defaultdict(list)
        for row in await conn.fetch(SQL["audited"], list(cases)):
            audited[str(row["saga_id"])].append(row)
        holds = [row["id"] for row in await conn.fetch(SQL["holds"])]
        for saga_id, case in cases.items():
            broken = case.close(audited[saga_id], holds) or self._missed(case)
            if broken is not None:
                report.add(broken)
            self._count(case, report)

    def _is_meant(self, row: asyncpg.Record, is_published: bool) -> bool:  # noqa: FBT001
        since = self._scope.since
        return since is None or is_published or row["updated_at"] >= since

    async def _prove_gone(
        self,
        conn: Connection,
        row: asyncpg.Record,
        testimony: Testimony | None,
        report: Report,
    ) -> None:
        """Judge a saga in neither table: it was deleted, unless anything else tells of it."""
        saga_id = str(row["id"])
        if testimony is not None and testimony.published:
            _note_missing(saga_id, testimony, report)
        elif await conn.fetch(SQL["facts_of"], [saga_id]):
            report.sagas += 1
            report.add(
                Break(
                    saga_id, Fault.SAGA_MISSING, None, "a saga to the facts of the journal", "none"
                )
            )
        elif row["final_status"] is None:
            report.sagas += 1
            report.add(Break(saga_id, Fault.SAGA_MISSING, None, "a saga at work", "none"))
        else:
            report.deleted += 1

    def _announced(self, case: Case) -> dict[int, int]:
        return {
            revision: at_ms
            for revision, at_ms in case.portrait.announced.items()
            if at_ms >= self._since_ms
        }

    def _missed(self, case: Case) -> Break | None:
        if self._witness is None:
            return None
        known = case.testimony.published.keys() | case.testimony.waiting
        revision = self._witness.missed(case.saga_id, self._announced(case), known)
        if revision is None:
            return None
        expected = "its lifecycle event in Kafka or the outbox"
        return Break(case.saga_id, Fault.NOT_PUBLISHED, revision, expected, "none")

    def _count(self, case: Case, report: Report) -> None:
        published = case.testimony.published.keys()
        waiting = case.testimony.waiting - published
        report.sagas += 1
        report.archived += case.row["is_archived"] and not case.row["is_hot"]
        report.facts += case.chain.facts
        report.compared += len(published)
        report.waiting += len(waiting)
        report.not_compared += len(self._announced(case).keys() - published - waiting)


def _note_missing(saga_id: str, testimony: Testimony, report: Report) -> None:
    """Note that something was published of a saga that is nowhere."""
    if not testimony.published:
        return
    report.sagas += 1
    report.compared += len(testimony.published)
    revision = min(testimony.published)
    expected = f"head {min(testimony.published[revision])}"
    report.add(Break(saga_id, Fault.SAGA_MISSING, revision, expected, "no saga"))


def _before(saga_id: str) -> str:
    return str(uuid.UUID(int=max(uuid.UUID(saga_id).int - 1, 0)))


def _fact(row: asyncpg.Record) -> Fact:
    link = Link(row["revision"], row["ordinal"], bytes(row["fact"]), bytes(row["head"]))
    return Fact(link, row["recorded_at"])
