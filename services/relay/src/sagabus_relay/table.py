"""One outbox table and its parked rows: every statement that the relay runs on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import attrgetter
from typing import Final

from sagabus_relay.parking import Parking, lock_parking
from sagabus_relay.plan import Parking as ToPark
from sagabus_relay.plan import Place, Row, Settlement
from sagabus_store import Connection, Database, Queries

__all__ = ["Backlog", "Fetch", "OutboxTable"]

_SQL: Final = Queries("sagabus_relay", "sql/outbox.sql")


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
            query = _SQL["fetch_beside_held" if what.held_topics else "fetch"]
            bounds = (what.held_topics, what.rows, what.shard_bytes)
            found = await connection.fetch(query, what.shards, *bounds)
        return sorted(map(Row._make, found), key=attrgetter("id"))

    async def settle(self, settlement: Settlement) -> None:
        """Write what a round left; safe to repeat, all or nothing."""
        if settlement.moves:
            async with self._database.transaction() as connection:
                await _move(connection, settlement)
        elif settlement.delete:
            async with self._database.connection() as connection:
                await connection.execute(_SQL["delete"], *_places(settlement.delete))

    @property
    def parking(self) -> Parking:
        """The parked keys of this outbox."""
        return Parking(self._database)

    async def backlog(self, shards: Sequence[int], bound: int = 100_000) -> Backlog:
        """Return what waits in `shards`; rows are counted up to `bound`."""
        async with self._database.connection() as connection:
            record = await connection.fetchrow(_SQL["backlog"], shards, bound)
        return Backlog(*record) if record is not None else Backlog(0, 0.0, 0)


async def _move(connection: Connection, settlement: Settlement) -> None:
    shards = {p.row.shard for p in settlement.park} | {row.shard for row in settlement.follow}
    await lock_parking(connection, sorted(shards))
    if settlement.delete:
        await connection.execute(_SQL["delete"], *_places(settlement.delete))
    if settlement.park:
        await connection.execute(_SQL["park"], *_parkings(settlement.park))
    if settlement.follow:
        # A statement of its own, after the lock: it sees the heads above, and it sees a redrive.
        await connection.execute(_SQL["follow"], *_places(settlement.follow))


def _places(rows: Iterable[Row]) -> tuple[list[Place], list[int], list[datetime]]:
    kept = list(rows)
    return [r.place for r in kept], [r.id for r in kept], [r.created_at for r in kept]


def _parkings(
    parkings: Iterable[ToPark],
) -> tuple[list[Place], list[int], list[datetime], list[str], list[str]]:
    kept = list(parkings)
    places = _places(p.row for p in kept)
    return (*places, [p.reason for p in kept], [p.detail for p in kept])
