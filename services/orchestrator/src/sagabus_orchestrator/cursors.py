"""Where a reader of a list stands, as an opaque text that it hands back. Pure.

A cursor comes from a caller, so it is untrusted: whatever is not exactly what `written` makes is
refused here, before anything of it reaches a statement. Its content is for its owner to check.
"""

from __future__ import annotations

import base64
import re
from datetime import UTC, datetime
from typing import Final

from sagabus_core.errors import InvalidValue

__all__ = ["MOST", "integer", "malformed", "moment", "read", "saga_id", "written"]

MOST: Final = 400
"""Longest cursor: the name of a topic with its numbers."""
_INTEGER: Final = re.compile(r"0|[1-9][0-9]{0,18}")
_SAGA_ID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_FIRST_YEAR: Final = 1970


def malformed() -> InvalidValue:
    """Return what is said of any cursor that no page gave out."""
    return InvalidValue("invalid_cursor", "take the cursor from the page before")


def written(text: str) -> str:
    """Return the cursor of an ASCII text."""
    return base64.urlsafe_b64encode(text.encode("ascii")).decode().rstrip("=")


def read(cursor: str) -> str:
    """Return the text of a cursor. Raises `InvalidValue` (`invalid_cursor`)."""
    if len(cursor) > MOST:
        raise malformed()
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
    except ValueError as cause:
        raise malformed() from cause
    # The decoder passes over foreign characters and spare bits: one place has one cursor.
    if written(text) != cursor or not text.isprintable():
        raise malformed()
    return text


def integer(text: str, most: int) -> int:
    """Return a number from 0 to `most` that is written in the one way. Raises `InvalidValue`."""
    if not _INTEGER.fullmatch(text) or int(text) > most:
        raise malformed()
    return int(text)


def moment(text: str) -> datetime:
    """Return an instant in UTC from 1970 on, as `isoformat` writes it. Raises `InvalidValue`."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError as cause:
        raise malformed() from cause
    if found.tzinfo is not UTC or found.isoformat() != text or found.year < _FIRST_YEAR:
        raise malformed()
    return found


def saga_id(text: str) -> str:
    """Return an id that is written in the one way. Raises `InvalidValue`."""
    if not _SAGA_ID.fullmatch(text):
        raise malformed()
    return text
