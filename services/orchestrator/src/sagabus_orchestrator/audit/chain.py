"""Recomputes the chain of a saga's facts: where does it break, and by what. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from sagabus_core.errors import SagabusError
from sagabus_messages.strict_json import parse_strict
from sagabus_orchestrator.entry import NO_HEAD

__all__ = ["Break", "Chain", "Fault", "Link"]

_STATUS: Final = b'{"kind":"status"'
_STARTED: Final = b'{"kind":"started"'


class Fault(StrEnum):
    """What is wrong with a chain."""

    BROKEN_LINK = "broken_link"
    """A fact does not lead to its head: its bytes or place changed, or one before it is gone."""
    MISSING_FACTS = "missing_facts"
    """Numbers are left out: facts were removed."""
    OTHER_END = "other_end"
    """The facts are sound but do not end where the snapshot says: the tail was cut or added."""
    OTHER_THAN_PUBLISHED = "other_than_published"
    """The head of a revision is not what its lifecycle event carried: history was rewritten."""
    SAGA_MISSING = "saga_missing"
    """A saga that was started is neither at work nor in the archive."""
    ARCHIVE_DIFFERS = "archive_differs"
    """A fact of the journal is not the one that the archive holds."""


@dataclass(frozen=True, slots=True)
class Link:
    """One stored fact with its head."""

    revision: int
    ordinal: int
    fact: bytes
    head: bytes


@dataclass(frozen=True, slots=True)
class Break:
    """The first thing that is wrong with a saga; `expected` and `found` are heads or numbers."""

    saga_id: str
    fault: Fault
    revision: int | None
    expected: str
    found: str

    def __str__(self) -> str:
        place = "" if self.revision is None else f" at revision {self.revision}"
        return f"{self.saga_id}{place}: {self.fault}, expected {self.expected}, found {self.found}"


@dataclass(slots=True)
class Chain:
    """The chain of one saga while its facts are read in order; keeps no fact.

    `announced` counts the revisions that changed the status: each was published with its head.
    """

    saga_id: str
    head: bytes = NO_HEAD
    revision: int = 0
    facts: int = 0
    announced: int = 0
    broken: Break | None = None
    _ordinal: int = 0
    _statuses: list[str] = field(default_factory=list)

    def take(self, link: Link) -> None:
        """Take the next fact; behind the first break nothing is judged."""
        if self.broken is not None:
            return
        expected = hashlib.sha256(self.head + link.fact).digest()
        if link.head != expected:
            gap = self._gap(link)
            self.broken = gap or self._break(Fault.BROKEN_LINK, link.revision, expected, link.head)
            return
        self._count(link)
        self.head, self.revision, self._ordinal = link.head, link.revision, link.ordinal
        self.facts += 1

    def end(self, revision: int, head: bytes) -> None:
        """Compare the end with what the snapshot's row says."""
        self._close_revision()
        if self.broken is None and (self.revision, self.head) != (revision, head):
            expected, found = f"{revision} {head.hex()}", f"{self.revision} {self.head.hex()}"
            self.broken = Break(self.saga_id, Fault.OTHER_END, revision, expected, found)

    def _gap(self, link: Link) -> Break | None:
        same = link.revision == self.revision and link.ordinal == self._ordinal + 1
        follows = link.revision == self.revision + 1 and link.ordinal == 0
        if same or follows:
            return None
        expected = f"a fact behind {self.revision}/{self._ordinal}"
        found = f"{link.revision}/{link.ordinal}"
        return Break(self.saga_id, Fault.MISSING_FACTS, link.revision, expected, found)

    def _break(self, fault: Fault, revision: int, expected: bytes, found: bytes) -> Break:
        return Break(self.saga_id, fault, revision, expected.hex(), found.hex())

    def _count(self, link: Link) -> None:
        if link.revision != self.revision:
            self._close_revision()
        if link.fact.startswith(_STARTED):
            self.announced += 1
        elif link.fact.startswith(_STATUS):
            self._statuses += _from_to(link.fact)

    def _close_revision(self) -> None:
        if self._statuses and self._statuses[0] != self._statuses[-1] and self.revision > 1:
            self.announced += 1
        self._statuses.clear()


def _from_to(fact: bytes) -> Iterable[str]:
    try:
        body = parse_strict(fact)
    except SagabusError:
        return ()
    return (str(body.get("from")), str(body.get("to"))) if isinstance(body, dict) else ()
