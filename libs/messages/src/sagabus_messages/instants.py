"""Instants: RFC 3339 UTC with milliseconds on the wire, epoch milliseconds inside."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from sagabus_messages.errors import MessageError

__all__ = [
    "INSTANT_PATTERN",
    "MAX_AHEAD_MS",
    "MAX_INSTANT_MS",
    "age_problem",
    "format_instant",
    "inbox_day",
    "parse_instant",
]

INSTANT_PATTERN: Final = (
    r"^(19[7-9][0-9]|[2-9][0-9]{3})-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
)
"""The one written form, for the years 1970 to 9999: one instant has one text."""

MAX_INSTANT_MS: Final = 253_402_300_799_999
"""9999-12-31T23:59:59.999Z."""

MAX_AHEAD_MS: Final = 10 * 60 * 1000
"""How far a message's ce_time may lie ahead of the database clock."""

_FORM = re.compile(INSTANT_PATTERN.removesuffix("$"), re.ASCII)
_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  # naive arithmetic is UTC here and half the price
_DAY_MS = 86_400_000


def parse_instant(text: object) -> int:
    """Return epoch milliseconds. Raises `invalid_instant` for any other form of text or type."""
    if not isinstance(text, str):
        raise _malformed(text)
    return _parse(text)


@lru_cache(maxsize=1024)  # as below; what is refused is not kept
def _parse(text: str) -> int:
    if _FORM.fullmatch(text):
        try:
            since = datetime.fromisoformat(text[:-1]) - _EPOCH
        except ValueError:
            pass  # the form is right, the calendar is not (30 February)
        else:
            return since.days * _DAY_MS + since.seconds * 1000 + since.microseconds // 1000
    raise _malformed(text)


def _malformed(text: object) -> MessageError:
    return MessageError(
        "invalid_instant", f"{str(text)[:40]!a} must be written like 2026-01-31T12:00:00.000Z"
    )


@lru_cache(maxsize=1024)  # the messages of a batch share few instants
def format_instant(at_ms: int) -> str:
    """Return the wire form of epoch milliseconds. Raises `invalid_instant` outside 1970 to 9999."""
    if not 0 <= at_ms <= MAX_INSTANT_MS:
        raise MessageError("invalid_instant", f"{at_ms} ms lies outside the years 1970 to 9999")
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds") + "Z"


def inbox_day(ce_time_ms: int) -> date:
    """Return the UTC day of a message: part of its inbox key, carried by the message itself."""
    return date.fromordinal(_EPOCH.toordinal() + ce_time_ms // _DAY_MS)


def age_problem(
    ce_time_ms: int, now_ms: int, window_ms: int
) -> Literal["too_old", "too_new"] | None:
    """Return why the inbox cannot vouch for a message of this time, None where it can.

    `now_ms` is the database clock. Older than the window: its inbox day may be gone, so a repeat
    could not be recognised. Far ahead: its day may not exist yet, and it would outlive the window.
    """
    if ce_time_ms < now_ms - window_ms:
        return "too_old"
    return "too_new" if ce_time_ms > now_ms + MAX_AHEAD_MS else None
