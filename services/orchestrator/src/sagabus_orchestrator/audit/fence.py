"""Up to where a numbered stream is complete, although transactions commit in any order.

A number is taken when a row is inserted and seen when its transaction commits, so a reader that
only remembers the last number it saw skips what commits late (trap 20). A *fence* is the newest
number that was given out, followed by a transaction id that is newer than every transaction that
may have taken such a number (each of them had written before: a row lock, a claim). Once no
running transaction is older than that id, everything up to the number is there, or never will be.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from sagabus_store import Connection, Queries

__all__ = ["SQL", "Fence", "HeldBack", "Stream", "held_by", "is_settled", "raise_fence", "settle"]

SQL = Queries("sagabus_orchestrator", "sql/pages.sql")
Stream: TypeAlias = Literal["journal", "audit"]
_FIRST_WAIT_S: Final = 0.002
_LONGEST_WAIT_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Fence:
    """Everything numbered up to `seq` was numbered by transactions older than `xid`."""

    seq: int
    xid: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Why the newest rows cannot be served yet: somebody has written and does not end.

    `age_ms` is None where our role may not see it, everything but `since_ms` where nobody is left.
    """

    since_ms: int
    pid: int | None = None
    database: str | None = None
    application: str | None = None
    state: str | None = None
    age_ms: int | None = None


async def raise_fence(conn: Connection, stream: Stream) -> Fence:
    """Return a fence behind everything that was numbered so far.

    `conn` is in no transaction: the number must be read before the transaction id is taken, and
    an id that stays in use would hold back everybody else. Fails on a standby: it gives out no ids.
    """
    seq = await conn.fetchval(SQL[f"{stream}_end"])
    row = await conn.fetchrow(SQL["raise_fence"])
    return Fence(seq, row["xid"], row["at_ms"]) if row is not None else Fence(0, 0, 0)


async def is_settled(conn: Connection, fence: Fence) -> bool:
    """Say whether every transaction before the fence has ended."""
    return bool(await conn.fetchval(SQL["oldest_running"]) >= fence.xid)


async def settle(conn: Connection, fence: Fence, patience_ms: int) -> bool:
    """Wait until a fence is settled, for `patience_ms` at most; returns whether it is."""
    deadline_s = asyncio.get_running_loop().time() + patience_ms / 1000
    wait_s = _FIRST_WAIT_S
    while not await is_settled(conn, fence):
        if asyncio.get_running_loop().time() + wait_s > deadline_s:
            return False
        await asyncio.sleep(wait_s)
        wait_s = min(wait_s * 2, _LONGEST_WAIT_S)
    return True


async def held_by(conn: Connection, since_ms: int) -> HeldBack:
    """Return who keeps fences from settling."""
    row = await conn.fetchrow(SQL["oldest_writer"])
    if row is None:
        return HeldBack(since_ms)
    return HeldBack(since_ms, **dict(row))
