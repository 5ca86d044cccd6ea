"""Order without Kafka: which rows may go out next, and what became of each.

A lane is one partition. It has one batch in flight, so nothing can overtake a batch that is
refused; a refused batch is halved until the refused record stands alone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sagabus_bus.errors import BusError, RecordRefused, TopicUnavailable
from sagabus_messages.record import OutboxRow

__all__ = [
    "Batch",
    "Blocked",
    "Held",
    "Lane",
    "Outcome",
    "Place",
    "Published",
    "Refused",
    "Unacknowledged",
    "Voyage",
    "row_bytes",
]


@dataclass(frozen=True, slots=True)
class Published:
    """In the log, acknowledged by all replicas (and committed, with a transactional id)."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Will never be accepted; the first such of its (topic, key) in this call: park it."""

    error: RecordRefused


@dataclass(frozen=True, slots=True)
class Blocked:
    """Never sent, because an earlier row of its (topic, key) was refused: it follows that one."""


@dataclass(frozen=True, slots=True)
class Held:
    """Not in the log, because its topic is missing or forbidden: hold the topic, park nothing."""

    error: TopicUnavailable


@dataclass(frozen=True, slots=True)
class Unacknowledged:
    """May or may not be in the log: send it again, before any later row of its key."""

    error: BusError


Outcome: TypeAlias = Published | Refused | Blocked | Held | Unacknowledged
Place: TypeAlias = tuple[str, int]
"""Topic and partition."""
Batch: TypeAlias = list[tuple[int, OutboxRow]]
"""Rows with their numbers in the call."""

_RECORD_OVERHEAD: Final = 64
_HEADER_OVERHEAD: Final = 10


def row_bytes(row: OutboxRow) -> int:
    """Return a safe upper estimate of what the row takes in a Kafka batch."""
    size = len(row.key or b"") + len(row.value or b"") + _RECORD_OVERHEAD
    for name, value in row.headers:  # a generator would take twice the time, for every record
        size += len(name) * 4 + len(value) + _HEADER_OVERHEAD
    return size


@dataclass(slots=True)
class Lane:
    """The rows that still have to go to one partition, in order."""

    waiting: deque[tuple[int, OutboxRow]] = field(default_factory=deque)
    most_rows: int = 1 << 30
    """Shrinks while a refused record is being sought, grows back with each success."""

    def take(self, max_bytes: int) -> Batch:
        """Remove and return the next batch: at least one row, then what fits."""
        batch: Batch = []
        size = 0
        while self.waiting and len(batch) < self.most_rows:
            size += row_bytes(self.waiting[0][1])
            if batch and size > max_bytes:
                break
            batch.append(self.waiting.popleft())
        return batch

    def put_back(self, batch: Batch) -> None:
        """Let a batch that is not in the log go out again, before everything else."""
        self.waiting.extendleft(reversed(batch))


class Voyage:
    """The rows of one call on their way: lanes, and an outcome for each settled row."""

    def __init__(self, rows: Sequence[OutboxRow]) -> None:
        self._rows = rows
        self._outcomes: list[Outcome | None] = [None] * len(rows)
        self._lanes: dict[Place, Lane] = {}

    @property
    def outcomes(self) -> list[Outcome]:
        """The outcome of every row, once `lanes` are empty."""
        return [outcome for outcome in self._outcomes if outcome is not None]

    @property
    def topics(self) -> list[str]:
        """The topics of the rows, each once."""
        return list(dict.fromkeys(row.topic for row in self._rows))

    def numbered(self) -> Iterator[tuple[int, OutboxRow]]:
        """Return the rows with their numbers."""
        return enumerate(self._rows)

    def load(self, number: int, place: Place) -> None:
        """Put a row into the lane of its partition; in order of numbers."""
        self._lanes.setdefault(place, Lane()).waiting.append((number, self._rows[number]))

    def next_wave(self, max_bytes: int) -> dict[Place, Batch]:
        """Take one batch from every lane that has rows waiting."""
        return {p: lane.take(max_bytes) for p, lane in self._lanes.items() if lane.waiting}

    def published(self, place: Place, batch: Batch, base_offset: int) -> None:
        """Settle an acknowledged batch."""
        for position, (number, _) in enumerate(batch):
            self._outcomes[number] = Published(place[1], base_offset + position)
        self._lanes[place].most_rows *= 2

    def refused(self, place: Place, batch: Batch, error: RecordRefused) -> None:
        """Halve a refused batch, or settle the row that stands alone and block its followers."""
        lane = self._lanes[place]
        if len(batch) > 1:
            lane.most_rows = len(batch) // 2
            lane.put_back(batch)
            return
        ((number, row),) = batch
        self._outcomes[number] = Refused(error)
        for follower in [f for f in lane.waiting if f[1].key == row.key]:
            self._outcomes[follower[0]] = Blocked()
            lane.waiting.remove(follower)

    def held(self, number: int, error: TopicUnavailable) -> None:
        """Settle a row of a topic that cannot be written to."""
        self._outcomes[number] = Held(error)

    def abandon(self, place: Place, batch: Batch, outcome: Held | Unacknowledged) -> None:
        """Give up a lane: its batch in flight and all that waited behind it."""
        lane = self._lanes[place]
        for number, _ in [*batch, *lane.waiting]:
            self._outcomes[number] = outcome
        lane.waiting.clear()

    def take_back(self, place: Place, batch: Batch) -> None:
        """Let a batch go out again that an aborted transaction made void; newest first."""
        self._lanes[place].put_back(batch)

    def unsettled(self) -> list[int]:
        """Return the numbers of rows without an outcome."""
        return [number for number, outcome in enumerate(self._outcomes) if outcome is None]

    def give_up(self, error: BusError) -> None:
        """Settle everything that is still open as unacknowledged."""
        for number in self.unsettled():
            self._outcomes[number] = Unacknowledged(error)
        self._lanes.clear()
