"""One outbox table and its parked rows: every statement that the relay runs on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from sagabus_core.ids import shard_of
from sagabus_relay.errors import NothingParked
from sagabus_relay.plan import Parking, Row, Settlement
from sagabus_store import Connection, Database, Queries

__all__ = ["Backlog", "Fetch", "OutboxTable", "ParkedKey"]

_SQL: Final = Queries("sagabus_relay", "sql/outbox.sql")
_PARKING_LOCK: Final = 0x5A6B
"""First half of the advisory locks under which rows are parked and redriven; the other: shard."""


@dataclass(frozen=True, slots=True)
class Fetch:
    """What to look at: shards in the order in which they are served, topics to leave, bounds."""

    shards: Sequence[int]
    held_topics: Sequence[str]
    rows: int
    shard_bytes: int


@dataclass(frozen=True, slots=True)
class Backlog:
    """Rows waiting (counted up to a bound), age of the oldest in ms, parked keys."""

    rows: int
    oldest_ms: float
    parked_keys: int


@dataclass(frozen=True, slots=True)
class ParkedKey:
    """A (topic, key) whose records wait for an operator, with the reason of the first refusal."""

    shard: int
    topic: str
    key: bytes | None
    first_id: int
    rows: int
    oldest_at: datetime
    parked_at: datetime
    reason: str
    detail: str


class OutboxTable:
    """The outbox of one service; errors are those of the store."""

    def __init__(self, name: str, database: Database) -> None:
        self.name = name
        self._database = database

    async def open(self) -> None:
        """Connect; does nothing when connected."""
        await self._database.open()

    async def close(self) -> None:
        """Disconnect; safe to call twice."""
        await self._database.close()

    async def fetch(self, what: Fetch) -> list[Row]:
        """Return the oldest committed rows, ids ascending.

        Every call begins at the oldest row there is: a row whose transaction commits late, with
        an id below rows that were delivered long ago, is simply the oldest.
        """
        async with self._database.connection() as connection:
            found = await connection.fetch(
                _SQL["fetch"], what.shards, what.held_topics, what.rows, what.shard_bytes
            )
        return sorted((Row(*record) for record in found), key=attrgetter("id"))

    async def settle(self, settlement: Settlement) -> None:
        """Write what a round left; safe to repeat, all or nothing."""
        if settlement.moves:
            async with self._database.transaction() as connection:
                await _move(connection, settlement)
        elif settlement.delete:
            async with self._database.connection() as connection:
                await connection.execute(_SQL["delete"], *_places(settlement.delete))

    async def redrive(self, topic: str, key: bytes | None) -> int:
        """Put the parked rows of a key back, in order, before whatever came later.

        Returns how many. Raises `NothingParked`. Twice at once: one of the two finds nothing.
        """
        shard = shard_of(key)
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["lock_parking"], _PARKING_LOCK, [shard])
            status = await connection.execute(_SQL["redrive"], shard, topic, key)
        moved = int(status.rpartition(" ")[2])
        if not moved:
            raise NothingParked("nothing_parked", f"{self.name}: no row of this key on {topic}")
        return moved

    async def parked(self, limit: int = 1_000) -> list[ParkedKey]:
        """Return parked keys, the longest parked first."""
        async with self._database.connection() as connection:
            return [ParkedKey(*record) for record in await connection.fetch(_SQL["parked"], limit)]

    async def backlog(self, shards: Sequence[int], bound: int = 100_000) -> Backlog:
        """Return what waits in `shards`; rows are counted up to `bound`."""
        async with self._database.connection() as connection:
            record = await connection.fetchrow(_SQL["backlog"], shards, bound)
        return Backlog(*record) if record is not None else Backlog(0, 0.0, 0)


async def _move(connection: Connection, settlement: Settlement) -> None:
    shards = {p.row.shard for p in settlement.park} | {row.shard for row in settlement.follow}
    await connection.execute(_SQL["lock_parking"], _PARKING_LOCK, sorted(shards))
    if settlement.delete:
        await connection.execute(_SQL["delete"], *_places(settlement.delete))
    if settlement.park:
        await connection.execute(_SQL["park"], *_parkings(settlement.park))
    if settlement.follow:
        # A statement of its own, after the lock: it sees the heads above, and it sees a redrive.
        await connection.execute(_SQL["follow"], *_places(settlement.follow))


def _places(rows: Iterable[Row]) -> tuple[list[int], list[int]]:
    kept = list(rows)
    return [row.shard for row in kept], [row.id for row in kept]


def _parkings(
    parkings: Iterable[Parking],
) -> tuple[list[int], list[int], list[str], list[str]]:
    kept = list(parkings)
    places = _places(p.row for p in kept)
    return (*places, [p.reason for p in kept], [p.detail for p in kept])
