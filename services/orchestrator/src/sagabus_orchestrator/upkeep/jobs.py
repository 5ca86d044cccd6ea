"""One replica at a time does a job: a lease on the database clock, fenced by its turn."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sagabus_store import Database, Queries

__all__ = ["LEASE_MS", "Jobs", "Turn"]

SQL = Queries("sagabus_orchestrator", "sql/upkeep.sql")
LEASE_MS: Final = 60_000
"""How long a replica that was killed at work keeps the others waiting."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The right to do one piece of a job."""

    name: str
    number: int
    position: str | None
    progress: Mapping[str, int]
    now_ms: int


class Jobs:
    """Hands out turns. Doing a piece twice is harmless; the lease only spares the work."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, name: str) -> Turn | None:
        """Return the turn if the job is due and nobody is at it."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["take_turn"], name, LEASE_MS)
        if row is None:
            return None
        position = None if row["position"] is None else str(row["position"])
        return Turn(name, row["turn"], position, json.loads(row["progress"]), row["now_ms"])

    async def give_back(
        self,
        turn: Turn,
        due_in_ms: int,
        position: str | None = None,
        progress: Mapping[str, int] | None = None,
        report: Mapping[str, Any] | None = None,
    ) -> bool:
        """Say how far the job came and when its next piece is due; False: the lease was lost."""
        async with self._database.connection() as conn:
            kept = await conn.fetchval(
                SQL["give_turn_back"],
                turn.name,
                turn.number,
                due_in_ms,
                position,
                json.dumps(dict(progress or {})),
                None if report is None else json.dumps(dict(report)),
            )
        return kept is not None
