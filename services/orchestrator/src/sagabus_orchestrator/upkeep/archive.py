"""The archive: sagas that ended long ago leave the hot tables, compressed, and stay readable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from itertools import groupby
from typing import Final

import asyncpg

from sagabus_orchestrator.audit.trail import LOCAL, Act, By, Trail, record
from sagabus_orchestrator.rows import instant
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, pack
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.jobs import Jobs
from sagabus_orchestrator.upkeep.shelf import SQL
from sagabus_runtime import Pulse
from sagabus_store import Connection, Database, StoreError, now_ms

__all__ = ["JOB", "Archive", "ArchivePolicy", "DroppedPartition", "drop_journal"]

JOB: Final = "archive"
DAY_MS: Final = 86_400_000
TICK_MS: Final = 1_000
_COLUMNS: Final = (
    *("id", "tenant", "workflow", "business_key", "definition_scope", "definition_version"),
    *("definition_digest", "status", "control", "revision", "journal_head", "start_id"),
)


@dataclass(frozen=True, slots=True)
class ArchivePolicy:
    """`after_days` since the last change, 0 never; most sagas of a transaction; pause in ms."""

    after_days: int = 30
    batch: int = 200
    interval_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A month of the journal that is gone, and the facts that were copied forward first."""

    first_day: date
    copied: int


class Archive:
    """Moves ended sagas in bounded batches, each in one transaction under the row locks."""

    def __init__(self, database: Database, events: UpkeepEvents, policy: ArchivePolicy) -> None:
        self._database = database
        self._events = events
        self._policy = policy
        self._jobs = Jobs(database)

    async def run(self, pulse: Pulse) -> None:
        """Archive until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            if self._policy.after_days:
                await self.tick()
            pulse.beat()
            await pulse.pause(TICK_MS)

    async def tick(self) -> bool:
        """Move one batch if it is due and no other replica is at it; returns whether it was."""
        turn = await self._jobs.take(JOB)
        if turn is None:
            return False
        moved = await self.move(self._policy.after_days)
        due_ms = 0 if moved == self._policy.batch else self._policy.interval_ms
        await self._jobs.give_back(turn, due_ms, report={"moved": moved, "ended_ms": turn.now_ms})
        return True

    async def move(self, after_days: int, by: By | None = None) -> int:
        """Move the oldest sagas that ended and stood still for `after_days`; returns how many.

        With `by`, who asked for it, the audit tells of each batch that moved any.
        """
        async with self._database.transaction() as conn:
            before = instant(await now_ms(conn) - after_days * DAY_MS)
            ended = await conn.fetch(SQL["take_ended"], before, self._policy.batch)
            if ended:
                await _put_away(conn, ended)
                if by is not None:
                    act = Act(kind="archive:run", by=by, subject=f"ended {after_days} days ago")
                    await record(conn, act, f"{len(ended)} sagas")
        self._events.archived(len(ended))
        return len(ended)


async def _put_away(conn: Connection, ended: Sequence[asyncpg.Record]) -> None:
    saga_ids = [row["id"] for row in ended]
    found = await conn.fetch(SQL["journals_of"], saga_ids)
    facts = {
        saga_id: tuple(_fact(row) for row in group)
        for saga_id, group in groupby(found, key=lambda row: row["saga_id"])
    }
    bodies = [pack(Body(bytes(row["snapshot"]), facts.get(row["id"], ()))) for row in ended]
    await conn.execute(
        SQL["put_away"],
        *([row[name] for row in ended] for name in _COLUMNS),
        bodies,
        [row["created_at"] for row in ended],
        [row["updated_at"] for row in ended],
    )
    await conn.execute(SQL["close_keys"], saga_ids, [row["status"] for row in ended])
    removed = await conn.fetchval(SQL["remove_ended"], saga_ids)
    if removed != len(ended):
        raise StoreError("lost_update", f"{len(ended) - removed} archived sagas were not removed")


def _fact(row: asyncpg.Record) -> ArchivedFact:
    return ArchivedFact(
        row["revision"], row["ordinal"], bytes(row["fact"]), bytes(row["head"]), row["recorded_at"]
    )


async def drop_journal(
    database: Database, keep_months: int, max_copied: int, by: By = LOCAL
) -> list[DroppedPartition]:
    """Drop the months of the journal before the last `keep_months`; run by the maintenance role.

    Facts of sagas that are not archived are copied forward first, at most `max_copied` a month.
    Each month is one transaction with its row in the audit. Raises `StoreUnavailable` if a short
    lock was not to be had: run it again, nothing is half done.
    """
    dropped: list[DroppedPartition] = []
    limit = _months_before(instant(await database.now_ms()).date(), keep_months)
    act = Act(kind="archive:drop-journal", by=by, subject=f"journal before {limit:%Y-%m}")
    async with Trail(database).refusals_of(act):
        while (month := await _drop_month(database, limit, max_copied, act)) is not None:
            dropped.append(month)
    return dropped


async def _drop_month(
    database: Database, limit: date, max_copied: int, act: Act
) -> DroppedPartition | None:
    async with database.transaction() as conn:
        row = await conn.fetchrow(SQL["drop_journal_partition"], limit, max_copied)
        if row is None:
            return None
        month = DroppedPartition(row["first_day"], row["copied"])
        told = f"dropped with its facts, {month.copied} of them copied to the present month first"
        await record(conn, replace(act, subject=f"journal {month.first_day:%Y-%m}"), told)
    return month


def _months_before(today: date, months: int) -> date:
    first = today.replace(day=1)
    for _ in range(months - 1):
        first = (first - timedelta(days=1)).replace(day=1)
    return first
