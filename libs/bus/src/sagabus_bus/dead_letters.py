"""Dead letters: the record as it came, with headers that say where it stood and why it failed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sagabus_core.errors import SagabusError
from sagabus_core.ids import dead_letter_id
from sagabus_messages.record import Headers, OutboxRow, Record

__all__ = [
    "DEAD_LETTER_SUFFIX",
    "DeadLetter",
    "Reason",
    "dead_letter_row",
    "dead_letter_topic",
    "read_dead_letter",
    "reason_of",
]

DEAD_LETTER_SUFFIX: Final = ".dlt"
UNEXPECTED: Final = "unexpected_error"
MAX_DETAIL_BYTES: Final = 1024

_ERROR: Final = "sagabus-error-"
_ID: Final = "sagabus-dead-letter-id"
_NUMBER: Final = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a record was set aside: a stable code and one sentence for people."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """What `dead_letter_row` wrote: the record as it stood at its source, and why it failed."""

    id: str
    source: Record
    reason: Reason
    attempts: int
    first_seen: str


def reason_of(error: Exception) -> Reason:
    """Return the reason that an error stands for; a programming error is `unexpected_error`."""
    if isinstance(error, SagabusError):
        return Reason(error.code, error.detail)
    return Reason(UNEXPECTED, f"{type(error).__name__}: {error}")


def dead_letter_topic(topic: str) -> str:
    """Return the dead-letter topic of `topic`; a dead-letter topic is its own."""
    return topic if topic.endswith(DEAD_LETTER_SUFFIX) else topic + DEAD_LETTER_SUFFIX


def dead_letter_row(record: Record, reason: Reason, *, attempts: int, seen_at_ms: int) -> OutboxRow:
    """Return the dead letter of `record`: key, value and headers as they came, its own ce_id.

    The same source position always gives the same `sagabus-dead-letter-id`. Error headers of an
    earlier failure are replaced: they described another position. `seen_at_ms` is when the
    caller first met the record, epoch milliseconds.
    """
    identity = dead_letter_id(record.topic, record.partition, record.offset)
    facts = (
        (_ID, identity),
        (f"{_ERROR}reason", reason.code),
        (f"{_ERROR}detail", reason.detail),
        (f"{_ERROR}source-topic", record.topic),
        (f"{_ERROR}source-partition", str(record.partition)),
        (f"{_ERROR}source-offset", str(record.offset)),
        (f"{_ERROR}first-seen", _instant(seen_at_ms)),
        (f"{_ERROR}attempts", str(attempts)),
    )
    return OutboxRow(
        topic=dead_letter_topic(record.topic),
        key=record.key,
        headers=_own_headers(record) + tuple((name, _header_bytes(text)) for name, text in facts),
        value=record.value,
    )


def read_dead_letter(record: Record) -> DeadLetter | None:
    """Return what a record of a `.dlt` topic says, or None for what no consumer of ours wrote.

    The topic decides where a letter comes from: one that names another source, or whose id does
    not derive from the place that it names, is not believed.
    """
    told = {name: value.decode("utf-8", "replace") for name, value in record.headers}
    source = record.topic.removesuffix(DEAD_LETTER_SUFFIX)
    if told.get(f"{_ERROR}source-topic") != source or source == record.topic:
        return None
    place = [told.get(f"{_ERROR}source-{part}", "") for part in ("partition", "offset")]
    if not all(_NUMBER.fullmatch(number) for number in place):
        return None
    partition, offset = map(int, place)
    identity = dead_letter_id(source, partition, offset)
    if told.get(_ID) != identity:
        return None
    attempts = told.get(f"{_ERROR}attempts", "")
    return DeadLetter(
        identity,
        Record(source, partition, offset, record.key, record.value, _own_headers(record), 0),
        Reason(told.get(f"{_ERROR}reason", UNEXPECTED), told.get(f"{_ERROR}detail", "")),
        int(attempts) if _NUMBER.fullmatch(attempts) else 1,
        told.get(f"{_ERROR}first-seen", ""),
    )


def _own_headers(record: Record) -> Headers:
    return tuple(
        (name, value)
        for name, value in record.headers
        if not name.startswith(_ERROR) and name != _ID
    )


def _header_bytes(text: str) -> bytes:
    # Errors quote input: lone surrogates must not break the letter, nor a long text bloat it.
    encoded = text.encode("utf-8", "replace")[:MAX_DETAIL_BYTES]
    return encoded.decode("utf-8", "ignore").encode()


def _instant(at_ms: int) -> str:
    moment = datetime.fromtimestamp(at_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
