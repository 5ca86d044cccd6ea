"""Collects the facts about one saga: the orchestrator's tables, and Kafka behind its port."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import asyncpg

from sagabus_core import ids
from sagabus_core.definitions import Definition
from sagabus_messages import unpack_headers
from sagabus_orchestrator.catalog import GLOBAL, Catalog, DefinitionRef
from sagabus_orchestrator.holds import ALL, PLATFORM
from sagabus_orchestrator.holds import SQL as HOLDS
from sagabus_orchestrator.queries import SagaDetail
from sagabus_orchestrator.readers import Readers
from sagabus_orchestrator.upkeep.jobs import SQL as UPKEEP
from sagabus_orchestrator.why.facts import (
    NOT_ASKED,
    Asked,
    Bus,
    Facts,
    Finding,
    Record,
    Told,
    asked,
)
from sagabus_store import Connection, Database, Queries, now_ms

__all__ = ["Gatherer"]

SQL = Queries("sagabus_orchestrator", "sql/why.sql")
_FINDINGS: Final = 10


class Gatherer:
    """Reads only, in a handful of statements and one look at Kafka."""

    def __init__(self, database: Database, catalog: Catalog, readers: Readers, bus: Bus) -> None:
        self._database = database
        self._catalog = catalog
        self._readers = readers
        self._bus = bus

    async def facts(self, detail: SagaDetail) -> Facts:
        """Return what is known now of this saga's wait."""
        saga, topics = detail.snapshot, self._readers.topics
        open_steps = asked(saga, self._definition(detail))
        owned = [(item.path, item.participant) for item in open_steps if item.participant]
        command_topics = {path: topics.command(owner) for path, owner in owned}
        key = saga.saga_id.encode()
        async with self._database.connection() as conn:
            records = await _records(conn, key)
            deferred = await conn.fetchrow(SQL["deferred_count"], saga.saga_id)
            paused = await _paused(conn, saga.saga_id)
            findings = await conn.fetch(UPKEEP["findings"], saga.saga_id, _FINDINGS)
            now = await now_ms(conn)
        readers = self._wanted(open_steps, records)
        return Facts(
            saga=saga,
            now_ms=now,
            asked=open_steps,
            command_topics=command_topics,
            result_topics={path: topics.result(owner) for path, owner in owned},
            records=records,
            deferred=deferred["messages"] if deferred else 0,
            deferred_since_at=deferred["oldest_at"] if deferred else None,
            paused=paused,
            findings=tuple(_finding(row) for row in findings),
            archived_at=detail.archived_at,
            bus=await self._bus.look(key, readers) if readers else NOT_ASKED,
        )

    def _definition(self, detail: SagaDetail) -> Definition | None:
        head = detail.summary
        for scope in (head.tenant, GLOBAL):
            found = self._catalog.get(DefinitionRef(scope, head.workflow, head.version))
            if found is not None and found.digest == detail.definition_digest:
                return found
        return None

    def _wanted(
        self, open_steps: Iterable[Asked], records: Iterable[Record]
    ) -> list[tuple[str, str]]:
        """Return every topic that matters with the group that reads it."""
        readers = self._readers
        topics = readers.topics
        wanted: dict[str, str] = {}
        for owner in {item.participant for item in open_steps if item.participant}:
            wanted[topics.command(owner)] = readers.participant(owner)
            wanted[topics.result(owner)] = readers.orchestrator
        for record in records:
            wanted.setdefault(record.topic, "")
        return list(wanted.items())


async def _paused(conn: Connection, saga_id: str) -> Told | None:
    """Return who paused a saga last: an operator, or by way of a hold."""
    hold = await conn.fetchrow(HOLDS["hold_of"], saga_id)
    if hold is not None:
        # Tenants read this: who acts on all of them, and why, is the business of the platform.
        own = (hold["actor"], hold["reason"])
        actor, reason = (PLATFORM, "held by the platform") if hold["tenant"] == ALL else own
        if hold["is_released"]:
            reason = f"{reason} (released: it goes on within seconds)"
            return Told(actor, reason, hold["held_at"])
        return Told(actor, reason, hold["held_at"], f"{hold['target']} {hold['name']}")
    pause = await conn.fetchrow(SQL["last_pause"], saga_id)
    return Told(pause["actor"], pause["reason"], pause["recorded_at"]) if pause else None


async def _records(conn: Connection, key: bytes) -> tuple[Record, ...]:
    rows = await conn.fetch(SQL["waiting_records"], ids.shard_of(key), key)
    return tuple(_record(row) for row in rows)


def _record(row: asyncpg.Record) -> Record:
    headers = dict(unpack_headers(row["headers"]))
    ce_id = headers.get("ce_id", b"").decode(errors="replace")
    return Record(row["topic"], ce_id, row["parked"], row["reason"], row["created_at"])


def _finding(row: asyncpg.Record) -> Finding:
    return Finding(
        row["fault"], row["detail"], row["repaired_at"] is not None, row["last_found_at"]
    )
