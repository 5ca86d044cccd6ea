"""Judges one saga by everything that is known of it: rows, facts, what was published. Pure."""

from __future__ import annotations

import uuid
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import asyncpg

from sagabus_core import ids
from sagabus_core.engine import Snapshot, from_json
from sagabus_core.errors import SagabusError
from sagabus_messages.strict_json import parse_strict
from sagabus_orchestrator.audit.chain import Chain, Link
from sagabus_orchestrator.audit.findings import Break, Fault
from sagabus_orchestrator.audit.portrait import Done, Portrait
from sagabus_orchestrator.audit.trail import LONG, SHORT, stored_text
from sagabus_orchestrator.audit.witness import Testimony
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, unpack

__all__ = ["Case", "Fact"]

_UNREADABLE: Final = (
    *(SagabusError, LookupError, TypeError, ValueError, AttributeError, RecursionError),
    zlib.error,
)
"""What reading bytes may raise that somebody else has written."""


@dataclass(frozen=True, slots=True)
class Fact:
    """A stored fact with the time beside it."""

    link: Link
    recorded_at: datetime

    @property
    def place(self) -> tuple[int, int]:
        """Revision and ordinal."""
        return (self.link.revision, self.link.ordinal)


@dataclass(slots=True)
class Case:
    """One saga at work or in the archive, while its facts come in; `row` as of `chain_page`.

    `broken` is what was found first.
    """

    row: asyncpg.Record
    testimony: Testimony
    broken: Break | None = None
    portrait: Portrait = field(default_factory=Portrait)
    chain: Chain = field(init=False)
    _archived: Mapping[tuple[int, int], bytes] | None = None
    _snapshot: bytes = b""

    def __post_init__(self) -> None:
        """Begin with the archived facts, if it is in the archive."""
        self.chain = Chain(self.saga_id, self.testimony.published)
        if self.row["is_hot"]:
            self._snapshot = bytes(self.row["snapshot"])
            if self.row["is_archived"]:
                self._find(Fault.ARCHIVE_DIFFERS, "a saga at work or archived", "both")
            return
        body = self._body()
        self._snapshot = body.snapshot
        self._archived = {(fact.revision, fact.ordinal): fact.fact for fact in body.facts}
        for fact in body.facts:
            self._judge(_of_archive(fact))

    @property
    def saga_id(self) -> str:
        """Whose case it is."""
        return str(self.row["id"])

    def take(self, fact: Fact) -> None:
        """Take the next fact of the journal."""
        if self._archived is None:
            self._judge(fact)
        elif self._archived.get(fact.place) != fact.link.fact:
            named = "/".join(map(str, fact.place))
            known = fact.place in self._archived
            expected = f"the fact {named} of the archive" if known else "no such fact"
            self._find(Fault.ARCHIVE_DIFFERS, expected, f"another {named}", fact.link.revision)

    def close(self, audited: Iterable[asyncpg.Record], holds: Iterable[uuid.UUID]) -> Break | None:
        """Say what is wrong first, after the last fact."""
        found = self.chain.end(self.row["revision"], bytes(self.row["journal_head"]))
        self.broken = (found if self.chain.broken else None) or self.broken or found
        for look in (self._key, self._columns, self._state):
            if self.broken is None:
                look()
        if self.broken is None:
            self._operations(list(audited), list(holds))
        return self.broken

    def _judge(self, fact: Fact) -> None:
        if not self.chain.take(fact.link) or self.broken is not None:
            return
        try:
            self.portrait.take(fact.link.revision, _object(fact.link.fact))
        except _UNREADABLE as error:
            self._find(Fault.UNREADABLE, "a fact", repr(error), fact.link.revision)
            return
        at, beside = _instant(self.portrait.changed_ms), fact.recorded_at
        # Facts of a month that is dropped are copied to the present one; nothing else moves them.
        is_copied = (beside.year, beside.month) > (at.year, at.month)
        if beside != at and not is_copied:
            self._find(Fault.CLOCK_DIFFERS, f"{at}", f"{beside}", fact.link.revision)

    def _key(self) -> None:
        row = self.row
        if not row["has_key"]:
            self._find(Fault.KEY_MISSING, "the key of a saga", "none")
        elif not row["key_fits"]:
            self._find(Fault.ROW_DIFFERS, "the saga's definition", "another in its key")
        elif row["final_status"] not in {None, row["status"]}:
            self._find(Fault.ROW_DIFFERS, row["status"], f"{row['final_status']} in its key")

    def _columns(self) -> None:
        row, portrait = self.row, self.portrait
        derived = ids.saga_id(row["tenant"], row["workflow"], row["business_key"])
        created_at = _instant(portrait.started_ms or 0)
        told = {
            "id": (derived, self.saga_id),
            "status": (portrait.status, row["status"]),
            "control": (portrait.control, row["control"]),
            "created_at": (created_at, row["created_at"]),
            "updated_at": (_instant(portrait.changed_ms), row["updated_at"]),
        }
        for name, (expected, found) in told.items():
            if expected != found:
                self._find(Fault.ROW_DIFFERS, f"{name} {expected}", str(found))

    def _state(self) -> None:
        try:
            snapshot = from_json(_object(self._snapshot))
            differences = list(self.portrait.differences(snapshot))
        except _UNREADABLE as error:
            self._find(Fault.UNREADABLE, "a snapshot", repr(error))
            return
        for difference in differences:
            self._find(Fault.SNAPSHOT_DIFFERS, "what the facts say", difference)
        for name, expected, found in self._pairs(snapshot):
            if expected != found:
                self._find(Fault.ROW_DIFFERS, f"{name} {expected}", str(found))

    def _pairs(self, snapshot: Snapshot) -> Iterator[tuple[str, object, object]]:
        row = self.row
        yield "id", snapshot.saga_id, self.saga_id
        names = ("tenant", "workflow", "business_key", "definition_version", "definition_digest")
        for name in (*names, "revision"):
            yield name, getattr(snapshot, name), row[name]
        if row["is_hot"]:
            yield "armed_at_ms", snapshot.armed_at_ms, row["armed_at_ms"]

    def _operations(self, audited: Sequence[asyncpg.Record], holds: Sequence[uuid.UUID]) -> None:
        """Hold journal and audit against each other: both were written in one transaction."""
        told = Counter(
            (row["operation_id"], row["actor"], row["reason"], row["kind"]) for row in audited
        )
        for done in self.portrait.done:
            names = _as_audited(done)
            row = next(((*names, kind) for kind in done.kinds if told[*names, kind]), None)
            if row is not None:
                told[row] -= 1
            elif not self._is_by_hold(done, holds):
                expected = f"{done.operation_id} by {done.actor}: {done.reason}"
                self._find(Fault.AUDIT_DIFFERS, expected, "no such row", done.revision)
        for operation_id, actor, reason, kind in +told:
            found = f"{kind} {operation_id} by {actor}: {reason}"
            self._find(Fault.AUDIT_DIFFERS, "what the journal tells", found)

    def _is_by_hold(self, done: Done, holds: Sequence[uuid.UUID]) -> bool:
        """Whether a hold paused it: then the row of the hold answers for that."""
        name = f"{self.saga_id} {done.revision - 1}"
        return any(str(uuid.uuid5(hold, name)) == done.operation_id for hold in holds)

    def _body(self) -> Body:
        try:
            return unpack(self.row["body"])
        except _UNREADABLE as error:
            self._find(Fault.UNREADABLE, "an archived document", repr(error))
            return Body(b"", ())

    def _find(self, fault: Fault, expected: str, found: str, revision: int | None = None) -> None:
        self.broken = self.broken or Break(self.saga_id, fault, revision, expected, found)


def _object(stored: bytes) -> dict[str, Any]:
    value = parse_strict(stored)
    if not isinstance(value, dict):
        raise TypeError("neither facts nor snapshots are anything but objects")
    return value


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _as_audited(done: Done) -> tuple[str, str, str]:
    operation_id, actor = (stored_text(each, SHORT) for each in (done.operation_id, done.actor))
    return operation_id, actor, stored_text(done.reason, LONG)


def _of_archive(fact: ArchivedFact) -> Fact:
    return Fact(Link(fact.revision, fact.ordinal, fact.fact, fact.head), fact.recorded_at)
