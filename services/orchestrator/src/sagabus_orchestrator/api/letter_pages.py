"""Dead letters as callers read them: a page with its cursor, one with its history."""

from __future__ import annotations

from collections.abc import Sequence

from sagabus_orchestrator import cursors, letters
from sagabus_orchestrator.api.models.letters import LetterAnswer, LetterDetail, LetterPage
from sagabus_orchestrator.letters import Letter, LetterFilter
from sagabus_store import Database

__all__ = ["read_letter", "read_page"]


async def read_page(
    database: Database,
    wanted: LetterFilter,
    limit: int,
    cursor: str | None,
    tenants: Sequence[str] | None,
) -> LetterPage:
    """Return letters by place, of these tenants alone. Raises `InvalidValue` for a bad cursor."""
    beyond = _place(cursor) if cursor is not None else None
    async with database.connection() as conn:
        found = await letters.page(conn, wanted, limit + 1, beyond, tenants)
    page = found[:limit]
    return LetterPage(
        dead_letters=list(map(LetterAnswer.of, page)),
        next_cursor=_cursor(page[-1]) if len(found) > limit else None,
    )


async def read_letter(database: Database, letter_id: str) -> LetterDetail:
    """Return one letter with what was done to it. Raises `NotFound`."""
    async with database.connection() as conn:
        letter = await letters.find(conn, letter_id)
        history = await letters.history(conn, letter)
    return LetterDetail.of_letter(letter, [dict(row) for row in history])


def _cursor(letter: Letter) -> str:
    topic, partition, offset = letter.place
    return cursors.written(f"{partition} {offset} {topic}")


def _place(cursor: str) -> tuple[str, int, int]:
    partition, _, rest = cursors.read(cursor).partition(" ")
    offset, _, topic = rest.partition(" ")
    if not topic:
        raise cursors.malformed()
    return topic, cursors.integer(partition, 2**31 - 1), cursors.integer(offset, 2**63 - 1)
