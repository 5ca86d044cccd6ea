"""Finds the sagas that a bulk filter names, page by page in the order of their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import asyncpg

from sagabus_core.engine import from_json
from sagabus_core.errors import SagabusError
from sagabus_messages.strict_json import load
from sagabus_orchestrator.bulk.values import BulkFilter
from sagabus_orchestrator.catalog import Catalog, DefinitionRef
from sagabus_orchestrator.why.facts import asked
from sagabus_runtime import get_logger
from sagabus_store import Connection, Database, Queries

__all__ = ["FIRST", "SQL", "Found", "Selected", "matching", "select"]

log = get_logger()
SQL = Queries("sagabus_orchestrator", "sql/bulk.sql")
FIRST: Final = "00000000-0000-0000-0000-000000000000"
MAX_LOOKED: Final = 2_000


@dataclass(frozen=True, slots=True)
class Found:
    """A saga that matches; `unreadable`: the code of why nobody can say whether it does."""

    saga_id: str
    tenant: str
    business_key: str
    unreadable: str = ""


@dataclass(frozen=True, slots=True)
class Selected:
    """Matching sagas in id order; `position`: all up to it were looked at, `ended`: no more are."""

    sagas: tuple[Found, ...]
    position: str
    ended: bool


async def select(
    conn: Connection, catalog: Catalog, wanted: BulkFilter, behind: str, limit: int
) -> Selected:
    """Return up to `limit` sagas behind an id; possibly none although there are more."""
    rows = await conn.fetch(
        SQL["bulk_page"],
        behind,
        None if wanted.tenants is None else list(wanted.tenants),
        wanted.workflow,
        None if wanted.statuses is None else [status.value for status in wanted.statuses],
        wanted.key_prefix,
        None if wanted.control is None else wanted.control.value,
        wanted.since,
        wanted.until,
        MAX_LOOKED,
        limit,
    )
    matched = [row for row in rows if row["id"] is not None]
    looked, looked_to = (rows[0]["looked"], rows[0]["looked_to"]) if rows else (0, None)
    is_full = len(matched) == limit
    position = matched[-1]["id"] if is_full else looked_to or behind
    judged = (_judged(row, catalog, wanted) for row in matched)
    sagas = tuple(found for found in judged if found is not None)
    return Selected(sagas, str(position), ended=not is_full and looked < MAX_LOOKED)


async def matching(
    database: Database, catalog: Catalog, wanted: BulkFilter, page: int
) -> AsyncIterator[Found]:
    """Yield every saga that matches now."""
    behind, ended = FIRST, False
    while not ended:
        async with database.connection() as conn:
            selected = await select(conn, catalog, wanted, behind, page)
        for found in selected.sagas:
            yield found
        behind, ended = selected.position, selected.ended


def before(wanted: BulkFilter, at: datetime) -> datetime:
    """Return the end of the time window: nothing that began later is meant."""
    return at if wanted.until is None else min(at, wanted.until)


def _judged(row: asyncpg.Record, catalog: Catalog, wanted: BulkFilter) -> Found | None:
    """Return a saga if a command of the wanted participant and step is open, where one is wanted.

    One that cannot be read is returned as such: whoever asks for a bulk must learn that it was
    passed over.
    """
    found = Found(str(row["id"]), row["tenant"], row["business_key"])
    if wanted.participant is None and wanted.step is None:
        return found
    ref = DefinitionRef(row["definition_scope"], row["workflow"], row["definition_version"])
    try:
        open_commands = asked(from_json(load(row["snapshot"])), catalog.get(ref))
    except SagabusError as error:
        return replace(found, unreadable=error.code)
    except Exception:
        # A defect that one saga brings to light must not stop the bulk, nor this process.
        log.exception("bulk.saga_unreadable", saga_id=found.saga_id)
        return replace(found, unreadable="unexpected_error")
    is_open = any(
        wanted.participant in {None, item.participant} and wanted.step in {None, item.step}
        for item in open_commands
    )
    return found if is_open else None
