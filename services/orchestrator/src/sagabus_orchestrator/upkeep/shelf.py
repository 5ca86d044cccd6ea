"""Archived sagas within a deciding transaction: what comes late is recorded where they are now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sagabus_core.engine import to_json
from sagabus_messages.strict_json import dump
from sagabus_orchestrator import rows
from sagabus_orchestrator.catalog import Catalog
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, pack, unpack
from sagabus_store import Connection, Queries

__all__ = ["Shelf"]

SQL = Queries("sagabus_orchestrator", "sql/archive.sql")


class Shelf:
    """The archived sagas of one transaction, locked; made anew for each."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn
        self._bodies: dict[str, Body] = {}

    async def lock(self, saga_ids: Iterable[str], catalog: Catalog) -> list[Entry]:
        """Lock archived sagas in id order, after all others; unknown ones are missing."""
        wanted = sorted(saga_ids)
        if not wanted:
            return []
        entries: list[Entry] = []
        for row in await self._conn.fetch(SQL["lock_archived"], wanted):
            body = unpack(row["body"])
            self._bodies[str(row["id"])] = body
            stored = {**row, "snapshot": body.snapshot, "traceparent": None}
            entry = rows.entry_of(stored, catalog)
            entry.archived = True
            entries.append(entry)
        return entries

    async def write(self, entries: Sequence[Entry], now_ms: int) -> None:
        """Write what changed; the facts go behind those that are there."""
        if not entries:
            return
        await self._conn.execute(
            SQL["update_archived"],
            [entry.snapshot.saga_id for entry in entries],
            [entry.snapshot.revision for entry in entries],
            [entry.head for entry in entries],
            [pack(self._grown(entry, now_ms)) for entry in entries],
            rows.instant(now_ms),
        )

    def _grown(self, entry: Entry, now_ms: int) -> Body:
        at = rows.instant(now_ms)
        facts = [ArchivedFact(f.revision, f.ordinal, f.fact, f.head, at) for f in entry.facts]
        before = self._bodies[entry.snapshot.saga_id]
        return before.with_more(dump(to_json(entry.snapshot)), facts)
