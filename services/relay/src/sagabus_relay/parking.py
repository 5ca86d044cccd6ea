"""What operators do with parked keys: redrive them in order, or discard the refused record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from sagabus_core.errors import InvalidValue
from sagabus_core.ids import shard_of
from sagabus_messages.record import Headers, unpack_headers
from sagabus_relay.errors import NothingParked, OperationReused
from sagabus_store import Connection, Database, Queries

__all__ = ["Deed", "ParkedKey", "ParkedRecord", "Parking", "ParkingOutcome", "lock_parking"]

_SQL: Final = Queries("sagabus_relay", "sql/parking.sql")
_LOCK_SPACE: Final = 0x5A6B
"""First half of the advisory locks under which rows are parked and put back; the other: shard."""
_KEY_MAX: Final = 128
_REASON_MAX: Final = 1_000


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


@dataclass(frozen=True, slots=True)
class ParkedRecord:
    """The first record of a parked key: the one that was refused."""

    id: int
    topic: str
    key: bytes | None
    headers: Headers
    value: bytes | None
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Deed:
    """What an operator does to a parked key, and why."""

    kind: Literal["redrive", "discard"]
    operation_id: str
    actor: str
    reason: str

    def __post_init__(self) -> None:
        """Refuse what could not be audited (`invalid_operation`)."""
        for name, value in (("operation id", self.operation_id), ("actor", self.actor)):
            if not 1 <= len(value) <= _KEY_MAX or not value.isprintable():
                raise InvalidValue("invalid_operation", f"the {name} must be 1 to 128 characters")
        if not self.reason.strip() or len(self.reason) > _REASON_MAX:
            raise InvalidValue("invalid_operation", "give a reason of 1 to 1000 characters")


@dataclass(frozen=True, slots=True)
class ParkingOutcome:
    """Rows that went back to the outbox and the id of the one that did not."""

    put_back: int
    discarded: int | None = None
    repeated: bool = False


async def lock_parking(connection: Connection, shards: Sequence[int]) -> None:
    """Let nobody else park or put back rows of these shards (ascending) until the commit."""
    await connection.execute(_SQL["lock_parking"], _LOCK_SPACE, shards)


class Parking:
    """The parked keys of one outbox, on the database of its service."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(
        self, limit: int = 1_000, *, topic: str | None = None, code: str | None = None
    ) -> list[ParkedKey]:
        """Return parked keys, the longest parked first; of one topic or reason, where given."""
        async with self._database.connection() as connection:
            found = await connection.fetch(_SQL["parked"], limit, topic, code)
        return [ParkedKey(*record) for record in found]

    async def find(self, row_id: int) -> ParkedRecord:
        """Return the parked record with this outbox id. Raises `NothingParked`."""
        async with self._database.connection() as connection:
            row = await connection.fetchrow(_SQL["parked_row"], row_id)
        if row is None:
            raise NothingParked("nothing_parked", f"no record {row_id} is parked here")
        told = (row["reason"] or "", row["detail"] or "")
        headers = unpack_headers(row["headers"])
        return ParkedRecord(row_id, row["topic"], row["key"], headers, row["value"], *told)

    async def key_of(self, row_id: int, operation_id: str) -> tuple[str, bytes | None]:
        """Return topic and key of a parked record, or of one that this operation has dealt with.

        Raises `NothingParked`.
        """
        async with self._database.connection() as connection:
            done = await connection.fetch(_SQL["operations"], operation_id)
        for row in done:
            if row["head_id"] == row_id:
                return row["topic"], row["key"]
        found = await self.find(row_id)
        return found.topic, found.key

    async def perform(
        self, topic: str, key: bytes | None, deed: Deed, *, dry_run: bool = False
    ) -> ParkingOutcome:
        """Put the parked rows of a key back, in order, before whatever came later.

        A discard leaves out the first one, which was refused, and keeps it in the audit row. The
        same operation id again returns the first outcome. Raises `NothingParked`, and
        `OperationReused` for an id that did something else. A dry run changes nothing.
        """
        async with self._database.transaction() as connection:
            attempt = connection.transaction()  # a savepoint, to which a dry run goes back
            await attempt.start()
            outcome = await self._perform(connection, topic, key, deed)
            await (attempt.rollback() if dry_run else attempt.commit())
        return outcome

    async def _perform(
        self, connection: Connection, topic: str, key: bytes | None, deed: Deed
    ) -> ParkingOutcome:
        shard = shard_of(key)
        await lock_parking(connection, [shard])
        for row in await connection.fetch(_SQL["operations"], deed.operation_id):
            if row["kind"] != deed.kind:
                raise OperationReused(
                    "operation_id_reused",
                    f"operation id {deed.operation_id!r} was a {row['kind']}: choose a new one",
                )
            if (row["topic"], row["key"]) == (topic, key):
                return _outcome(deed, row["put_back"], row["head_id"], repeated=True)
        head = await connection.fetchrow(_SQL["head"], shard, topic, key)
        if head is None:
            raise NothingParked("nothing_parked", f"no record of this key is parked on {topic}")
        if deed.kind == "discard":
            await connection.execute(_SQL["discard"], shard, head["id"])
        status = await connection.execute(_SQL["redrive"], shard, topic, key)
        put_back = int(status.rpartition(" ")[2])
        names = ("headers", "value", "reason", "detail")
        evidence = [head[name] if deed.kind == "discard" else None for name in names]
        done = (deed.kind, deed.actor, deed.reason, put_back, head["id"])
        await connection.execute(
            _SQL["record_operation"], deed.operation_id, topic, key, *done, *evidence
        )
        return _outcome(deed, put_back, head["id"])


def _outcome(deed: Deed, put_back: int, head_id: int, *, repeated: bool = False) -> ParkingOutcome:
    return ParkingOutcome(put_back, head_id if deed.kind == "discard" else None, repeated)
