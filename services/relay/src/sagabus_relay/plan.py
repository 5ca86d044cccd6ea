"""What to do with a batch of outbox rows, and what its outcomes mean: values in, values out.

One *round* takes the oldest rows of one slot, publishes some of them, and settles: delivered rows
are deleted, a refused record parks its (topic, key), rows of a parked key follow it out of the hot
table, rows of a topic that cannot be written stay where they are. Only one round of a slot is
under way at a time, and a round holds for every key an unbroken run of its oldest rows. That is
why a repeated or interrupted round, even of a former owner, never changes the order in which the
records of a key *first* appear.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple, TypeAlias, assert_never

__all__ = [
    "TOO_LARGE",
    "Blocked",
    "Key",
    "Limits",
    "Outcome",
    "Parking",
    "Place",
    "Refused",
    "Round",
    "Row",
    "Sent",
    "Settlement",
    "TopicClosed",
    "Unsent",
    "plan",
    "settle",
]

Key: TypeAlias = tuple[str, bytes | None]
"""What order is kept within: topic and record key."""

Place: TypeAlias = tuple[int, int]
"""Where a row stands in its table: block and line (ctid)."""

TOO_LARGE = "record_too_large"
_ROW_OVERHEAD = 64


class Row(NamedTuple):  # a frozen class takes four times as long to make, for every record
    """One committed outbox row; `parked` says whether records of its key were parked already.

    Id and `created_at` together are its identity: a restored database gives ids a second time.
    `place` only finds it.
    """

    id: int
    shard: int
    topic: str
    key: bytes | None
    headers: bytes
    value: bytes | None
    created_at: datetime
    parked: bool = False
    place: Place = (0, 0)

    @property
    def order_key(self) -> Key:
        """The (topic, key) within which this row keeps its place."""
        return (self.topic, self.key)

    @property
    def size(self) -> int:
        """Bytes that the record takes in a request, rounded up."""
        return len(self.key or b"") + len(self.headers) + len(self.value or b"") + _ROW_OVERHEAD


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one round; `record_bytes` is the largest record that the relay ever sends."""

    rows: int
    batch_bytes: int
    record_bytes: int


@dataclass(frozen=True, slots=True)
class Parking:
    """A row that cannot be published as it is, and why."""

    row: Row
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Round:
    """`send` in order; afterwards `park`, and move the rows of `follow` behind their heads."""

    send: tuple[Row, ...]
    follow: tuple[Row, ...]
    park: tuple[Parking, ...]

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do."""
        return not (self.send or self.follow or self.park)


@dataclass(frozen=True, slots=True)
class Sent:
    """The broker has acknowledged the record."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The broker refused this very record, and would refuse it again."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Blocked:
    """Never sent, because an older record of its key was refused in this round."""


@dataclass(frozen=True, slots=True)
class TopicClosed:
    """The topic is missing or forbidden; that says nothing about the record."""

    detail: str


@dataclass(frozen=True, slots=True)
class Unsent:
    """Not tried, or unknown whether it got there: the row stays and is published again."""

    trouble: str = ""


Outcome: TypeAlias = Sent | Refused | Blocked | TopicClosed | Unsent


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a round leaves to be written, which topics closed or proved open, and what went wrong.

    `trouble` is set if some row is still to be sent for a reason that lies with the broker.
    """

    delete: tuple[Row, ...]
    park: tuple[Parking, ...]
    follow: tuple[Row, ...]
    closed_topics: frozenset[str]
    open_topics: frozenset[str]
    trouble: str | None

    @property
    def moves(self) -> bool:
        """Whether rows leave for the parked table, which needs a transaction."""
        return bool(self.park or self.follow)

    @property
    def gone(self) -> int:
        """How many rows leave the hot table."""
        return len(self.delete) + len(self.park) + len(self.follow)


def plan(rows: Sequence[Row], limits: Limits, held: Collection[str]) -> Round:
    """Choose from `rows` (ascending ids within every key) what this round does.

    A row of a held topic is left alone. The first row beyond a limit ends the round, so that every
    key contributes an unbroken run of its oldest rows.
    """
    send: list[Row] = []
    follow: list[Row] = []
    park: dict[Key, Parking] = {}
    room = limits.batch_bytes
    for row in rows:
        if row.topic in held:
            continue
        size = row.size
        if row.parked or (park and row.order_key in park):
            follow.append(row)
        elif size > limits.record_bytes:
            detail = f"{size} bytes; the relay sends at most {limits.record_bytes}"
            park[row.order_key] = Parking(row, TOO_LARGE, detail)
        elif send and (len(send) >= limits.rows or size > room):
            break
        else:
            send.append(row)
            room -= size
    return Round(tuple(send), tuple(follow), tuple(park.values()))


def settle(round_: Round, outcomes: Sequence[Outcome]) -> Settlement:
    """Turn the outcomes of `round_.send`, in its order, into what has to be written."""
    delete: list[Row] = []
    park: list[Parking] = []
    follow: list[Row] = list(round_.follow)
    closed: set[str] = set()
    waiting: set[Key] = set()
    trouble: str | None = None
    for row, outcome in zip(round_.send, outcomes, strict=True):
        match outcome:
            case Sent():
                delete.append(row)
            case Refused(reason, detail):
                park.append(Parking(row, reason, detail))
            case Blocked():
                follow.append(row)
            case TopicClosed():
                closed.add(row.topic)
                waiting.add(row.order_key)
            case Unsent(problem):
                waiting.add(row.order_key)
                trouble = problem
            case _:
                assert_never(outcome)
    # A row that is too large waits while an older one of its key could not be delivered yet:
    # parked now, it would take its healthy predecessor with it.
    late = {p.row.order_key for p in round_.park} & waiting
    park += [p for p in round_.park if p.row.order_key not in late]
    return Settlement(
        delete=tuple(delete),
        park=tuple(park),
        follow=tuple(row for row in follow if row.order_key not in late),
        closed_topics=frozenset(closed),
        open_topics=frozenset(row.topic for row in delete),
        trouble=trouble,
    )
