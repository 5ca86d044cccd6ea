"""Seals the audit: a chain over its rows that no operation has to wait for.

A chain that every row extends as it is written would make all operations wait for one another. So
rows are sealed afterwards, in the order of their numbers, once the fence (see `fence`) says that
none can be added below. Each seal is logged too: whoever owns the database can write a new chain,
but not unsay what the log holds in another place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Final

import asyncpg

from sagabus_core.canonical import canonical_bytes
from sagabus_orchestrator.audit.trail import SQL
from sagabus_runtime import get_logger
from sagabus_store import Database

__all__ = ["NO_SEAL", "Sealer", "extend"]

log = get_logger()
NO_SEAL: Final = bytes(32)
"""Head of the chain before the first row."""
_COVERED: Final = (
    *("seq", "kind", "actor", "permission", "tenant", "workflow", "saga_id", "subject"),
    *("operation_id", "reason", "expected", "outcome", "code", "detail", "withheld"),
)
_BATCH: Final = 1_000


def extend(head: bytes, row: asyncpg.Record) -> bytes:
    """Return the head behind one more row: SHA-256 of the head before and the row's values."""
    values = [*(row[name] for name in _COVERED), row["recorded_at"].isoformat()]
    return hashlib.sha256(head + canonical_bytes(values)).digest()


class Sealer:
    """Seals what is complete; any number of replicas may, one does at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known = 0

    async def seal(self, upto: int) -> None:
        """Seal the rows that nobody has sealed, up to the number `upto`; nothing to do is cheap."""
        while self._known < upto:
            more = await self._seal_some(upto)
            if more is None:
                # Another replica is at it, perhaps not as far as this: look again next time.
                return
            if not more:
                self._known = upto

    async def _seal_some(self, upto: int) -> bool | None:
        """Return whether there may be more; None where another replica seals now."""
        async with self._database.transaction() as conn:
            if not await conn.fetchval(SQL["try_lock_seals"]):
                return None
            last = await conn.fetchrow(SQL["last_seal"])
            seq, head = (last["seq"], bytes(last["head"])) if last else (0, NO_SEAL)
            rows = await conn.fetch(SQL["sealed_rows"], seq, upto, _BATCH)
            if rows:
                seq, head = rows[-1]["seq"], _extended(head, rows)
                await conn.execute(SQL["seal"], seq, head)
        if rows:
            log.info("audit.sealed", seq=seq, head=head.hex())
        return len(rows) == _BATCH


def _extended(head: bytes, rows: Iterable[asyncpg.Record]) -> bytes:
    for row in rows:
        head = extend(head, row)
    return head
