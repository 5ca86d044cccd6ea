"""Dead letters as values, and every statement on their tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias
from uuid import UUID

import asyncpg

from sagabus_bus import DeadLetter, Reason, read_dead_letter
from sagabus_core import ids
from sagabus_core.errors import SagabusError
from sagabus_messages import (
    MessageError,
    Record,
    Topics,
    pack_headers,
    parse_strict,
    unpack_headers,
)
from sagabus_orchestrator.errors import NotFound
from sagabus_store import Connection, Queries

__all__ = [
    "FOREIGN",
    "SQL",
    "Deed",
    "Letter",
    "LetterFilter",
    "LetterState",
    "close",
    "find",
    "history",
    "keep",
    "letter_id_of",
    "listed",
    "owner",
    "page",
    "read_letter",
    "unknown",
]

SQL: Final = Queries("sagabus_orchestrator", "sql/dead_letters.sql")
LetterState: TypeAlias = Literal["open", "redriven", "discarded"]
FOREIGN: Final = "foreign"
"""Kind of what stands in a `.dlt` topic and no consumer of sagabus wrote: it can be discarded."""
TENANT_MAX: Final = 128
_NOT_OURS: Final = Reason("not_a_dead_letter", "no consumer of sagabus wrote this record")


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter with what became of it; `source` is the record as it stood at its source."""

    id: str
    kind: str
    source: Record
    reason: Reason
    attempts: int
    first_seen: str
    state: LetterState = "open"
    actor: str | None = None
    why: str | None = None
    changed_at: datetime | None = None
    received_at: datetime | None = None
    tenant: str | None = None

    @classmethod
    def of(cls, row: asyncpg.Record) -> Letter:
        """Return the letter of a row."""
        headers = unpack_headers(row["headers"])
        place = (row["topic"], row["partition"], row["offset"])
        return cls(
            id=str(row["id"]),
            kind=row["kind"],
            source=Record(*place, row["key"], row["value"], headers, 0),
            reason=Reason(row["code"], row["detail"]),
            attempts=row["attempts"],
            first_seen=row["first_seen"],
            state=row["state"],
            actor=row["actor"],
            why=row["reason"],
            changed_at=row["changed_at"],
            received_at=row["received_at"],
            tenant=row["tenant"],
        )

    @property
    def saga_id(self) -> str | None:
        """The saga that the record key names, if it is the form of one."""
        key = self.source.key or b""
        try:
            return str(UUID(key.decode())) if len(key) == len(str(UUID(int=0))) else None
        except ValueError:
            return None

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset at the source."""
        return (self.source.topic, self.source.partition, self.source.offset)


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which letters are meant; None means any."""

    state: LetterState | None = "open"
    topic: str | None = None
    code: str | None = None
    kind: str | None = None
    saga: str | None = None
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Deed:
    """What an operator does to one letter, and why."""

    kind: Literal["redrive", "discard"]
    operation_id: str
    actor: str
    reason: str
    request: str
    edited: bytes | None = None


def read_letter(record: Record, topics: Topics) -> Letter:
    """Return the letter of a record of a `.dlt` topic; never refuses one."""
    found = read_dead_letter(record) or _foreign(record)
    try:
        name = topics.parse(record.topic)
    except MessageError:
        kind = FOREIGN
    else:
        kind = name.kind.value if found.source.topic == name.source else FOREIGN
    told = (found.id, kind, found.source, found.reason, found.attempts, found.first_seen)
    return Letter(*told, tenant=_claimed_tenant(found.source))


def _claimed_tenant(source: Record) -> str | None:
    """Return whom a body names, however wrong the rest of it is."""
    try:
        body = parse_strict(source.value or b"")
    except SagabusError:
        return None
    tenant = body.get("tenant") if isinstance(body, dict) else None
    if not isinstance(tenant, str):
        return None
    # Only what Postgres can store: a letter that cannot be kept has no letter of its own.
    return tenant if tenant.isprintable() and 1 <= len(tenant) <= TENANT_MAX else None


def _foreign(record: Record) -> DeadLetter:
    place = (record.topic, record.partition, record.offset)
    return DeadLetter(ids.dead_letter_id(*place), record, _NOT_OURS, 1, "")


def letter_id_of(text: str) -> str:
    """Return the id that is meant by an id or by `topic/partition/offset`. Raises `NotFound`."""
    topic, *place = text.split("/")
    try:
        if place:
            partition, offset = map(int, place)
            return ids.dead_letter_id(topic, partition, offset)
        return str(UUID(text))
    except ValueError as cause:
        raise NotFound(
            "not_found", f"{text!r} is neither the id of a dead letter nor topic/partition/offset"
        ) from cause


async def keep(conn: Connection, letters: Sequence[Letter]) -> None:
    """Keep letters that are not known yet; one statement."""
    await conn.execute(
        SQL["keep_letters"],
        *([letter.place[part] for letter in letters] for part in range(3)),
        [letter.id for letter in letters],
        [letter.kind for letter in letters],
        [letter.saga_id for letter in letters],
        [letter.source.key for letter in letters],
        [pack_headers(letter.source.headers) for letter in letters],
        [letter.source.value for letter in letters],
        [_text(letter.reason.code) for letter in letters],
        [_text(letter.reason.detail) for letter in letters],
        [letter.attempts for letter in letters],
        [_text(letter.first_seen) for letter in letters],
        [letter.tenant for letter in letters],
    )


async def find(conn: Connection, letter_id: str) -> Letter:
    """Return a letter. Raises `NotFound`."""
    row = await conn.fetchrow(SQL["find_letter"], letter_id)
    if row is None:
        raise unknown(letter_id)
    return Letter.of(row)


def unknown(letter_id: str) -> NotFound:
    """Return what is said of a letter that is not kept, or not there for whoever asks."""
    return NotFound("not_found", f"no dead letter {letter_id} is kept here: see `sagabus dlt list`")


async def listed(conn: Connection, wanted: LetterFilter, limit: int) -> list[Letter]:
    """Return letters by topic, partition and offset: the order in which they may be redriven."""
    values = (wanted.state, wanted.topic, wanted.code, wanted.kind, wanted.saga, wanted.tenant)
    return [Letter.of(row) for row in await conn.fetch(SQL["list_letters"], *values, limit)]


async def page(
    conn: Connection,
    wanted: LetterFilter,
    limit: int,
    beyond: tuple[str, int, int] | None = None,
    tenants: Sequence[str] | None = None,
) -> list[Letter]:
    """Return letters in the same order beyond a place; `tenants`: theirs alone, see `owner`."""
    values = (wanted.state, wanted.topic, wanted.code, wanted.kind, wanted.saga)
    place = beyond or (None, None, None)
    found = await conn.fetch(SQL["letters_page"], *values, *place, limit, tenants)
    return [Letter.of(row) for row in found]


async def owner(conn: Connection, letter: Letter) -> str | None:
    """Return whose a letter is: its saga's tenant, else whom it names, None where nobody knows."""
    found: str | None = await conn.fetchval(SQL["letter_owner"], letter.id)
    return found


async def close(
    conn: Connection, letter: Letter, state: LetterState, deed: Deed, effect: str
) -> None:
    """Note what was done with an open letter, and by whom."""
    await conn.execute(SQL["close_letter"], letter.id, state, deed.actor, deed.reason)
    await conn.execute(
        SQL["record_letter_operation"],
        deed.operation_id,
        *letter.place,
        deed.kind,
        deed.actor,
        deed.reason,
        deed.request,
        deed.edited,
        effect,
    )


async def history(conn: Connection, letter: Letter) -> list[asyncpg.Record]:
    """Return what was done to a letter, in order."""
    return await conn.fetch(SQL["letter_history"], *letter.place)


def _text(text: str) -> str:
    return text.replace("\0", "")
