"""What a proof is about and what it may find. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final, TypeAlias

__all__ = ["Break", "Fault", "Progress", "Report", "Scope"]

_MOST_BREAKS: Final = 100


class Fault(StrEnum):
    """What is wrong with a saga's evidence."""

    BROKEN_LINK = "broken_link"
    """A fact does not lead to its head: its bytes or place changed, or one before it is gone."""
    MISSING_FACTS = "missing_facts"
    """Numbers are left out: facts were removed."""
    OTHER_END = "other_end"
    """The facts are sound but do not end where the saga's row says: the tail was cut or added."""
    OTHER_THAN_PUBLISHED = "other_than_published"
    """The head of a revision is not what its lifecycle event carried: history was rewritten."""
    NOT_PUBLISHED = "not_published"
    """A change of status that Kafka should hold is neither there nor waits in the outbox."""
    SAGA_MISSING = "saga_missing"
    """A saga of which Kafka or the journal knows is neither at work nor in the archive."""
    KEY_MISSING = "key_missing"
    """A saga without its key, which keeps it from being started a second time."""
    ARCHIVE_DIFFERS = "archive_differs"
    """A fact of the journal is not the one that the archive holds, or a saga is in both."""
    ROW_DIFFERS = "row_differs"
    """A column of the saga's row, or of its key, is not what snapshot and facts say."""
    SNAPSHOT_DIFFERS = "snapshot_differs"
    """The snapshot tells another state, plan, abort, branch or reason than the facts."""
    CLOCK_DIFFERS = "clock_differs"
    """A time beside a fact is not the one within it."""
    AUDIT_DIFFERS = "audit_differs"
    """The audit lacks an operation that the journal tells of, or tells of another."""
    AUDIT_CHANGED = "audit_changed"
    """The audit's rows up to a number are not those that were sealed."""
    UNREADABLE = "unreadable"
    """Stored bytes that no release has written, or only a later one."""


@dataclass(frozen=True, slots=True)
class Break:
    """The first thing that is wrong with a saga; `expected` and `found` are in plain text.

    Without a saga: with the audit, where `revision` is the number of a row.
    """

    saga_id: str | None
    fault: Fault
    revision: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        what = f", expected {self.expected}, found {self.found}"
        if self.saga_id is None:
            return f"the audit up to row {self.revision}: {self.fault}{what}"
        place = "" if self.revision is None else f" at revision {self.revision}"
        return f"{self.saga_id}{place}: {self.fault}{what}"


@dataclass(frozen=True, slots=True)
class Scope:
    """What to prove: one saga, those that changed at or after `since`, or (both None) all."""

    saga_id: str | None = None
    since: datetime | None = None


@dataclass(slots=True)
class Report:
    """What was proved. `breaks` holds the first hundred, one per saga; `broken` counts all.

    `compared`: revisions whose published head was compared, each once however often Kafka holds
    it. `waiting`: those that were not published so far. `not_compared`: those that Kafka no longer
    keeps. `deleted`: ended sagas of which only the key is left. `read` of `to_read` records.
    `audit_rows`: of the whole audit, `unsealed` of them behind its last seal.
    """

    sagas: int = 0
    facts: int = 0
    archived: int = 0
    deleted: int = 0
    compared: int = 0
    waiting: int = 0
    not_compared: int = 0
    broken: int = 0
    read: int = 0
    to_read: int = 0
    audit_rows: int = 0
    unsealed: int = 0
    breaks: list[Break] = field(default_factory=list)

    def add(self, found: Break) -> None:
        """Note what is wrong with a saga: once for each."""
        self.broken += 1
        if len(self.breaks) < _MOST_BREAKS:
            self.breaks.append(found)


Progress: TypeAlias = Callable[[Report], None]
