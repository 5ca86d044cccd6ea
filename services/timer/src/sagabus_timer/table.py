"""The table of wake-ups: every statement that the timer runs on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sagabus_store import Connection, Queries
from sagabus_timer.requests import Arming

__all__ = ["Census", "Due", "arm", "bury", "census", "next_due_ms", "outbox_depth", "take_due"]

_SQL: Final = Queries("sagabus_timer", "sql/wakeups.sql")


@dataclass(frozen=True, slots=True)
class Due:
    """A wake-up that was taken to be fired: this generation, and no other, is spent."""

    saga_id: str
    generation: int
    due_at_ms: int
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class Census:
    """Armed and overdue wake-ups, each counted up to a bound; how late the latest of them is."""

    armed: int
    overdue: int
    late_ms: int = 0


async def arm(connection: Connection, armings: Sequence[Arming]) -> int:
    """Apply requests of different sagas, in saga order; returns how many changed a row."""
    changed = await connection.fetch(
        _SQL["arm"],
        [a.saga_id for a in armings],
        [a.generation for a in armings],
        [a.due_at_ms for a in armings],
        [a.requested_at_ms for a in armings],
        [a.traceparent for a in armings],
    )
    return len(changed)


async def take_due(connection: Connection, now_ms: int, limit: int) -> list[Due]:
    """Mark at most `limit` due wake-ups as fired and return them, each locked until the commit.

    Half are the longest overdue. If that half is full there is a backlog, and the other half are
    those that became due last: neither end waits for the other.
    """
    half = max(1, limit // 2)
    found = list(await connection.fetch(_SQL["take_oldest"], now_ms, half))
    if len(found) == half and limit > half:
        found += await connection.fetch(_SQL["take_newest"], now_ms, limit - half)
    return [Due(str(saga), *rest) for saga, *rest in found]


async def next_due_ms(connection: Connection) -> int | None:
    """Return when the next wake-up is due, None if none is armed."""
    value = await connection.fetchval(_SQL["next_due"])
    return None if value is None else int(value)


async def outbox_depth(connection: Connection, bound: int) -> int:
    """Return how many records the relay has still to carry away, at most `bound`."""
    return int(await connection.fetchval(_SQL["outbox_depth"], bound))


async def bury(connection: Connection, requested_before_ms: int, limit: int) -> int:
    """Remove tombstones of requests that nobody may repeat any more; returns how many."""
    status = await connection.execute(_SQL["bury"], requested_before_ms, limit)
    return int(status.rpartition(" ")[2])


async def census(connection: Connection, now_ms: int, bound: int) -> Census:
    """Return how many wake-ups are armed and overdue."""
    record = await connection.fetchrow(_SQL["census"], now_ms, bound)
    return Census(*record) if record is not None else Census(0, 0)
