"""Proves that the audit's rows are those that were sealed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import asyncpg

from sagabus_orchestrator.audit.findings import Break, Fault, Report
from sagabus_orchestrator.audit.seal import NO_SEAL, extend
from sagabus_orchestrator.audit.trail import SQL
from sagabus_store import Connection, Database

__all__ = ["prove_seals"]

_PAGE: Final = 1_000
_MAX: Final = 2**63 - 1


@dataclass(slots=True)
class _Walk:
    """Where the proof stands: the head behind the row `seq`; `expected`: heads to meet."""

    expected: dict[int, bytes] = field(default_factory=dict)
    seq: int = 0
    head: bytes = NO_SEAL

    def take(self, row: asyncpg.Record) -> Break | None:
        """Go on by one row."""
        passed = next((seq for seq in self.expected if seq < row["seq"]), None)
        if passed is not None:
            return self.missed(passed)
        self.seq, self.head = row["seq"], extend(self.head, row)
        expected = self.expected.pop(self.seq, self.head)
        return None if expected == self.head else _differs(self.seq, expected, self.head.hex())

    def missed(self, seq: int) -> Break:
        """Return what is wrong where a sealed row is gone."""
        return _differs(seq, self.expected[seq], "no such row")


async def prove_seals(database: Database, logged: Mapping[int, bytes], report: Report) -> None:
    """Recompute the chain over all rows and compare it with every seal, stored and `logged`.

    Rows behind the last seal are counted as `unsealed`. Memory stays flat.
    """
    walk, found = _Walk(dict(sorted(logged.items()))), None
    async with database.transaction(isolation="repeatable_read") as conn:
        last = await conn.fetchrow(SQL["last_seal"])
        end = max(last["seq"] if last else 0, *logged, 0)
        while found is None and (rows := await _page(conn, walk)):
            for row in rows:
                found = found or walk.take(row)
                report.audit_rows += 1
                report.unsealed += row["seq"] > end
    if found is None and walk.expected:
        found = walk.missed(min(walk.expected))
    if found is not None:
        report.add(found)


async def _page(conn: Connection, walk: _Walk) -> list[asyncpg.Record]:
    """Return the next rows, having learned the seals that stand among them."""
    rows = await conn.fetch(SQL["sealed_rows"], walk.seq, _MAX, _PAGE)
    for seal in await conn.fetch(SQL["seals"], walk.seq, _PAGE):
        walk.expected.setdefault(seal["seq"], bytes(seal["head"]))  # but the log's word is better
    return rows


def _differs(seq: int, expected: bytes, found: str) -> Break:
    return Break(None, Fault.AUDIT_CHANGED, seq, expected.hex(), found)
