"""Writes the audit: what was done in the transaction of its effect, what was refused after it.

`operation` and `dead_letter_operation` answer "did this id act before, and with what outcome";
the journal answers "what changed in the saga". This table alone answers "who asked, by which right,
and was it granted", for everything that people manage.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Collection, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from sagabus_core.errors import SagabusError
from sagabus_runtime import get_logger
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Database, Queries

__all__ = [
    "LOCAL",
    "LONG",
    "REFUSALS_PER_MINUTE",
    "SHORT",
    "Act",
    "By",
    "Trail",
    "record",
    "stored_text",
]

SQL = Queries("sagabus_orchestrator", "sql/audit.sql")
log = get_logger()

REFUSALS_PER_MINUTE: Final = 30
"""Most refusals that one bucket of callers may write in a minute; the others are counted."""
_BUCKETS: Final = 64
SHORT: Final = 256
LONG: Final = 1_000


@dataclass(frozen=True, slots=True)
class By:
    """Who asks for something, why, and under which id of their own choice."""

    actor: str
    reason: str = ""
    operation_id: str | None = None


LOCAL: Final = By("local")
"""Whoever has the password of the database and did not say who they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What was asked for: `kind` is also its permission, unless that depends on what is found.

    `tenant` is empty for what belongs to no single tenant; `expected` is what the caller had seen.
    """

    kind: str
    by: By
    subject: str
    permission: str = ""
    tenant: str = ""
    workflow: str = ""
    saga_id: str | None = None
    expected: str | None = None

    def columns(self) -> tuple[str | None, ...]:
        """Return the values of the table's first columns; texts are cut to what it takes."""
        return (
            self.kind,
            stored_text(self.by.actor, SHORT),
            self.permission or self.kind,
            stored_text(self.tenant, SHORT),
            stored_text(self.workflow, SHORT),
            self.saga_id,
            stored_text(self.subject, SHORT),
            stored_text(self.by.operation_id, SHORT) if self.by.operation_id else None,
            stored_text(self.by.reason, LONG),
            self.expected,
        )

    def of_each(self, tenants: Collection[str]) -> tuple[Act, ...]:
        """Return what to record of an act on several tenants: one row each, which names no other.

        One that is on no tenant by name (all, or what belongs to none) stays one without a tenant.
        """
        owners = sorted(set(tenants)) or [""]
        return tuple(replace(self, tenant=tenant) for tenant in owners)

    @property
    def bucket(self) -> int:
        """Which callers this one shares its budget of refusals with."""
        return zlib.crc32(self.by.actor.encode()) % _BUCKETS


async def record(conn: Connection, acts: Act | Iterable[Act], detail: str) -> None:
    """Record in the caller's transaction what it has done: both are durable, or neither."""
    for act in (acts,) if isinstance(acts, Act) else acts:
        await conn.execute(SQL["record_done"], *act.columns(), stored_text(detail, LONG))
    await reach("orchestrator.after-audit")


class Trail:
    """Records refusals, each in a small transaction of its own after the rollback."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def refusals_of(self, *acts: Act) -> AsyncIterator[None]:
        """Record it if the block refuses this; outages and other retryable errors are none."""
        try:
            yield
        except SagabusError as error:
            if not error.retryable:
                # More of them than one caller may write in a minute would find no room.
                for act in acts[:REFUSALS_PER_MINUTE]:
                    await self.refused(act, error)
            raise

    async def refused(self, act: Act, error: SagabusError) -> bool:
        """Record that `act` was refused; returns whether it was written.

        At most 30 a minute are written per bucket of callers (64 buckets, by actor);
        what finds no room is counted and told by the next row of the bucket (`withheld`). Never
        raises: the refusal itself is what the caller must hear.
        """
        values = (*act.columns(), error.code, stored_text(error.detail, LONG))
        try:
            async with self._database.transaction() as conn:
                written = await conn.fetchval(
                    SQL["record_refused"], *values, act.bucket, REFUSALS_PER_MINUTE
                )
        except SagabusError as failure:
            told = {"kind": act.kind, "code": error.code, "cause": failure.code}
            log.error("audit.refusal_not_recorded", **told)  # noqa: TRY400 - the cause is told
            return False
        return written is not None

    async def withheld(self) -> int:
        """Return how many refusals found no room and are not told by a row yet."""
        async with self._database.connection() as conn:
            return int(await conn.fetchval(SQL["withheld"]))


def stored_text(value: str, most: int) -> str:
    """Return what a text column can hold of what somebody sent."""
    sound = value.replace("\0", "").encode("utf-8", "replace").decode()
    return sound if len(sound) <= most else f"{sound[: most - 1]}…"
