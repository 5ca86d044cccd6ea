"""Recomputes the chain of a saga's facts: where does it break, and by what. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from sagabus_orchestrator.audit.findings import Break, Fault
from sagabus_orchestrator.entry import NO_HEAD

__all__ = ["Chain", "Link"]


@dataclass(frozen=True, slots=True)
class Link:
    """One stored fact with its head."""

    revision: int
    ordinal: int
    fact: bytes
    head: bytes


@dataclass(slots=True)
class Chain:
    """The chain of one saga while its facts are read in order; keeps no fact.

    `published`: by revision, the heads that were published; whoever rewrites a chain as a whole
    can make it sound, but not say anything else than was said.
    """

    saga_id: str
    published: Mapping[int, Set[str]] = field(default_factory=dict)
    head: bytes = NO_HEAD
    revision: int = 0
    facts: int = 0
    broken: Break | None = None
    _ordinal: int = 0
    _other: Break | None = None

    def take(self, link: Link) -> bool:
        """Take the next fact and say whether it holds; behind the first break nothing is judged."""
        if self.broken is not None:
            return False
        expected = hashlib.sha256(self.head + link.fact).digest()
        if link.head != expected:
            told = (link.revision, expected.hex(), link.head.hex())
            self.broken = self._gap(link) or Break(self.saga_id, Fault.BROKEN_LINK, *told)
            return False
        if link.revision != self.revision:
            self._close_revision()
        self.head, self.revision, self._ordinal = link.head, link.revision, link.ordinal
        self.facts += 1
        return True

    def end(self, revision: int, head: bytes) -> Break | None:
        """Compare the end with what the saga's row says; return the first thing that is wrong."""
        self._close_revision()
        if self.broken is not None:
            return self.broken
        if (self.revision, self.head) != (revision, head):
            expected, found = f"{revision} {head.hex()}", f"{self.revision} {self.head.hex()}"
            return Break(self.saga_id, Fault.OTHER_END, revision, expected, found)
        return self._other or self._beyond()

    def _gap(self, link: Link) -> Break | None:
        same = link.revision == self.revision and link.ordinal == self._ordinal + 1
        follows = link.revision == self.revision + 1 and link.ordinal == 0
        if same or follows:
            return None
        expected = f"a fact behind {self.revision}/{self._ordinal}"
        found = f"{link.revision}/{link.ordinal}"
        return Break(self.saga_id, Fault.MISSING_FACTS, link.revision, expected, found)

    def _close_revision(self) -> None:
        for head in sorted(self.published.get(self.revision, ())):
            if self._other is None and head != self.head.hex():
                self._other = self._differs(self.revision, head, self.head.hex())

    def _beyond(self) -> Break | None:
        """Return what was published of revisions that are not there any more."""
        for revision in sorted(self.published):
            if revision > self.revision:
                return self._differs(revision, min(self.published[revision]), "nothing")
        return None

    def _differs(self, revision: int, expected: str, found: str) -> Break:
        return Break(self.saga_id, Fault.OTHER_THAN_PUBLISHED, revision, expected, found)
