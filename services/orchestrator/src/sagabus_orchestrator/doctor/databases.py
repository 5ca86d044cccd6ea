"""Facts of the databases for the doctor, judged as they come."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import Any, Final

from sagabus_orchestrator.audit.fence import held_by
from sagabus_orchestrator.bulk.selection import SQL as BULK
from sagabus_orchestrator.catalog import SQL as REGISTRY
from sagabus_orchestrator.doctor.checks import (
    Check,
    Level,
    judge_clock,
    judge_count,
    judge_holds,
    judge_outbox,
    judge_partitions,
    judge_role,
    judge_writer,
)
from sagabus_orchestrator.holds import SQL as HOLDS
from sagabus_orchestrator.upkeep.jobs import SQL as UPKEEP
from sagabus_store import (
    Component,
    Connection,
    Database,
    MigrationError,
    Queries,
    now_ms,
    require_current,
)

__all__ = ["Examined", "examine_database", "examine_outbox", "skew_ms"]

SQL = Queries("sagabus_orchestrator", "sql/doctor.sql")
_RECONCILER_LATE_MS: Final = 300_000
_NEEDED_DAYS: Final = {"inbox": 1, "journal": 0}

Examined = tuple[list[Check], set[str]]
"""Checks, and the topics that records wait for."""


async def skew_ms(conn: Connection) -> int:
    """Return how far the database clock is ahead of this host's, from the middle of the asking."""
    before = time.time()
    theirs = await now_ms(conn)
    return theirs - int((before + time.time()) * 500)


async def examine_database(
    database: Database, components: Sequence[Component], roles: Sequence[str] = ()
) -> Examined:
    """Check the orchestrator's own database, and the rights of these roles (none: of ours)."""
    async with database.connection() as conn:
        try:
            await require_current(conn, components)
        except MigrationError as error:
            mend = "run the migrations with the owner's role"
            return [Check("migrations", Level.FAIL, error.detail, mend)], set()
        checks = [Check("migrations", Level.OK, "every migration is applied, unedited")]
        checks += [await _role(conn, name) for name in roles or (None,)]
        checks += [await _definitions(conn), *await _partitions(conn)]
        checks += await _reconciler(conn)
        checks += await _dead_letters(conn)
        writer = await held_by(conn, 0)
        checks.append(judge_writer(writer.pid, writer.application, writer.age_ms))
        bulks = await conn.fetchrow(BULK["waiting_bulks"])
        held = await conn.fetchrow(HOLDS["count_holds"])
        checks.append(judge_holds(held["holds"], held["sagas"]) if held else judge_holds(0, 0))
        checks += _bulks(0, 0) if bulks is None else _bulks(bulks["overdue"], bulks["paused"])
        outbox, topics = await examine_outbox(conn, "orchestrator")
    return [*checks, *outbox], topics


def _bulks(overdue: int, paused: int) -> list[Check]:
    mend = "start an orchestrator, or cancel them: sagabus bulk list"
    checks = [judge_count("bulk", overdue, "bulk operations that nobody works on", mend)]
    if paused:  # somebody's intention, or stopped by the system: the note of each says which
        mend = "sagabus bulk list; resume or cancel them"
        what = "bulk operations are paused"
        checks.append(judge_count("bulk-paused", paused, what, mend, Level.WARN))
    return checks


async def examine_outbox(conn: Connection, name: str) -> Examined:
    """Check the clock and the outbox of any service's database."""
    checks = [judge_clock(name, await skew_ms(conn))]
    row = await conn.fetchrow(SQL["outbox"])
    if row is None:
        return checks, set()
    checks.append(judge_outbox(name, row["waiting"], row["oldest_ms"]))
    mend = "mend what the reason says (sagabus why), then redrive the key"
    checks.append(judge_count("parked", row["parked"], f"parked keys in {name}", mend))
    topics = {str(found["topic"]) for found in await conn.fetch(SQL["waiting_topics"])}
    return checks, topics


async def _role(conn: Connection, name: str | None) -> Check:
    row = await conn.fetchrow(SQL["role"], name)
    if row is None:
        return Check("role", Level.FAIL, f"there is no role {name}", "make it, grant its profile")
    return judge_role(row["role"], {k: bool(v) for k, v in row.items() if k != "role"})


async def _definitions(conn: Connection) -> Check:
    orphans = await conn.fetch(REGISTRY["orphaned_instances"])
    named = ", ".join(f"{row['workflow']} {row['version']}" for row in orphans)
    mend = "publish them again with the same content"
    what = f"definitions that running sagas need are unknown{named and ': '}{named}"
    if not orphans:
        return Check("definitions", Level.OK, "every running saga's definition is known")
    return judge_count("definitions", len(orphans), what, mend)


async def _partitions(conn: Connection) -> list[Check]:
    found = {row["parent"]: row["days"] for row in await conn.fetch(SQL["partitions"])}
    # A month's partition reaches to its end: what begins today or later is enough.
    months = found.get("journal")
    days = {"inbox": found.get("inbox"), "journal": None if months is None else max(months, 0)}
    return [judge_partitions(name, days[name], _NEEDED_DAYS[name]) for name in _NEEDED_DAYS]


async def _reconciler(conn: Connection) -> list[Check]:
    jobs = {row["name"]: row for row in await conn.fetch(UPKEEP["job_reports"])}
    row = jobs.get("reconciler")
    counts: Any = await conn.fetchrow(UPKEEP["count_findings"])
    open_check = judge_count(
        "stuck",
        counts["open"],
        "sagas stand still and could not be repaired",
        "sagabus why on each: select saga_id from reconciler_finding where repaired_at is null",
    )
    repaired = judge_count(
        "repaired",
        counts["repaired"],
        "sagas stood still and were repaired within a day",
        "find out why: somebody changed tables by hand, or there is a defect",
        Level.WARN,
    )
    if row is None or row["report"] is None or row["overdue_ms"] > _RECONCILER_LATE_MS:
        detail, mend = "the reconciler is not at work", "start an orchestrator"
        return [open_check, repaired, Check("reconciler", Level.FAIL, detail, mend)]
    report = json.loads(row["report"])
    named = ", ".join(f"{report.get(n, 0)} {n}" for n in ("machine", "paused", "manual"))
    detail = f"{report.get('checked', 0)} unfinished sagas in its last round: {named}"
    return [open_check, repaired, Check("reconciler", Level.OK, detail)]


async def _dead_letters(conn: Connection) -> list[Check]:
    if not await conn.fetchval(SQL["has_dead_letters"]):
        return []
    count = int(await conn.fetchval(SQL["open_dead_letters"]))
    mend = "sagabus dlt list; redrive or discard each"
    return [judge_count("dead_letters", count, "open dead letters", mend, Level.WARN)]
