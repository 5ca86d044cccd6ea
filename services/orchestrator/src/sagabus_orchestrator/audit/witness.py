"""What is known outside of the database: heads that were published, sorted in a temporary file."""

from __future__ import annotations

import sqlite3
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final, Self

from sagabus_bus import partition_of
from sagabus_store import Queries

__all__ = ["PublishedHead", "Testimony", "Witness"]

SQL = Queries("sagabus_orchestrator", "sql/witness.sql")
_SLOW_COMMIT_MS: Final = 600_000
"""What was decided later than this before the outbox was read may not have been committed then."""
_SKEW_MS: Final = 600_000
"""How far the clocks of Kafka and the database may be apart."""


@dataclass(frozen=True, slots=True)
class PublishedHead:
    """What a lifecycle event said: at this revision the journal had this head."""

    saga_id: str
    revision: int
    head: str
    at_ms: int


@dataclass(slots=True)
class Testimony:
    """What is known of one saga: by revision the heads that Kafka holds; what is on its way."""

    published: dict[int, set[str]] = field(default_factory=lambda: defaultdict(set))
    waiting: set[int] = field(default_factory=set)


class Witness:
    """Keeps each head once, however often it was published; memory stays flat.

    Read the outbox first (`now_ms` is then), Kafka next, the database last: so whatever was
    published is in the database, and whatever was committed before `now_ms` is in one of the two.
    """

    def __init__(self, now_ms: int, partitions: int = 1) -> None:
        self._now_ms = now_ms
        self._partitions = partitions
        self._floors: dict[int, int] = {}
        self._table = sqlite3.connect("")  # a file that is gone when it is closed
        self._table.execute(SQL["make"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._table.close()

    def began(self, partition: int, at_ms: int) -> None:
        """Note when the oldest record that a partition still holds was written."""
        self._floors.setdefault(partition, at_ms)

    def published(self, heads: Iterable[PublishedHead]) -> None:
        """Keep heads that Kafka holds."""
        self._keep(heads, waits=False)

    def waiting(self, heads: Iterable[PublishedHead]) -> None:
        """Keep heads that wait to be published, or that an operator kept from it."""
        self._keep(heads, waits=True)

    def _keep(self, heads: Iterable[PublishedHead], *, waits: bool) -> None:
        rows = (
            (uuid.UUID(h.saga_id).bytes, h.revision, h.head, h.at_ms, int(waits)) for h in heads
        )
        self._table.executemany(SQL["keep"], rows)

    def between(self, low: str, high: str | None) -> Mapping[str, Testimony]:
        """Return what is known of sagas behind `low`, up to and with `high` (None: all)."""
        last = None if high is None else uuid.UUID(high).bytes
        found: dict[str, Testimony] = {}
        page = self._table.execute(SQL["between"], (uuid.UUID(low).bytes, last))
        for saga, revision, head, waits in page:
            testimony = found.setdefault(str(uuid.UUID(bytes=saga)), Testimony())
            if waits:
                testimony.waiting.add(revision)
            else:
                testimony.published[revision].add(head)
        return found

    def missed(self, saga_id: str, announced: Mapping[int, int], known: Set[int]) -> int | None:
        """Return the first of these revisions (with their ms) that Kafka should hold and does not.

        A record is removed by its age, the oldest of a partition first: what was written later
        than the oldest that is there is there.
        """
        floor_ms = self._floors.get(partition_of(saga_id.encode(), self._partitions))
        if floor_ms is None:
            return None
        until_ms = self._now_ms - _SLOW_COMMIT_MS
        return min(
            (
                revision
                for revision, at_ms in announced.items()
                if revision not in known and floor_ms + _SKEW_MS < at_ms < until_ms
            ),
            default=None,
        )
