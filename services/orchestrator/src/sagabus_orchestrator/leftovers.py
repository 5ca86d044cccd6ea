"""Early answers that wait: what a person looks through once recovery mode is off."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from sagabus_messages import MessageError, Topics
from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.recovery import SQL
from sagabus_orchestrator.works import stored_record, stored_result
from sagabus_store import Database

__all__ = ["Leftover", "Leftovers"]


@dataclass(frozen=True, slots=True)
class Leftover:
    """An answer whose command this database never issued; `saga_status` None: no such saga."""

    id: int
    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    activation: str
    asked: str
    answered: str
    saga_status: str | None
    kept_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record, topics: Topics) -> Leftover:
        """Return a row as people see it."""
        body = stored_result(stored_record(row), topics).body
        target = f" of {body.target}" if body.target else ""
        return cls(
            id=row["id"],
            saga_id=body.saga_id,
            tenant=body.tenant,
            workflow=body.workflow,
            business_key=body.business_key,
            activation=body.activation,
            asked=f"{body.phase}{target} attempt {body.attempt}",
            answered=str(body.status),
            saga_status=row["status"],
            kept_at=row["kept_at"],
        )


class Leftovers:
    """Lists and discards early answers."""

    def __init__(self, database: Database, topics: Topics) -> None:
        self._database = database
        self._topics = topics

    async def page(self, beyond: int = 0, limit: int = 100) -> list[Leftover]:
        """Return the longest waiting ones with an id beyond the one given."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["list_early"], beyond, limit)
        return [Leftover.of(row, self._topics) for row in rows]

    async def discard(self, ids: Sequence[int], actor: str, reason: str) -> list[int]:
        """Take answers from those that wait, for good; they stay in the table as evidence.

        All or none: raises `NotFound` if one does not wait (any more), `Refused`
        (`invalid_operation`) without a reason.
        """
        by = By(actor, reason)
        async with Trail(self._database).refusals_of(_act(by, ids)):
            if not reason.strip() or not actor.strip():
                raise Refused("invalid_operation", "say who discards them, and why")
            return await self._discard(ids, by)

    async def _discard(self, ids: Sequence[int], by: By) -> list[int]:
        owned: dict[str, list[int]] = defaultdict(list)
        async with self._database.transaction() as conn:
            found = await conn.fetch(SQL["discard_early"], list(ids), by.actor, by.reason)
            for row in found:
                owned[self._tenant_of(row)].append(row["id"])
            done = sorted(int(row["id"]) for row in found)
            missing = sorted(set(ids) - set(done))
            if missing:
                raise NotFound("not_found", f"no early answer {missing[0]} waits")
            for tenant, own in sorted(owned.items()):
                await record(conn, _act(by, own, tenant), f"discarded {len(own)}")
        return done

    def _tenant_of(self, row: asyncpg.Record) -> str:
        """Return whose an answer is; one that this release cannot read is nobody's."""
        try:
            return stored_result(stored_record(row), self._topics).body.tenant
        except MessageError:
            return ""


def _act(by: By, ids: Sequence[int], tenant: str = "") -> Act:
    subject = f"early {', '.join(map(str, sorted(ids)))}"
    return Act(kind="recovery:discard", by=by, subject=subject, tenant=tenant)
