"""Answers that come before the command they answer, after a restore of the database.

A restored database has forgotten commands that it had sent; participants have answered them, and
Kafka still holds the answers. In recovery mode such an *early* answer is kept under its saga id,
also if the saga itself is not known yet, and applied by the transaction that issues its command.
What is kept is applied in every mode; the mode only says whether new ones are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

import asyncpg

from sagabus_bus import Reason
from sagabus_core.errors import IllegalTransition, InvalidValue
from sagabus_messages import Topics
from sagabus_messages.errors import MessageError
from sagabus_orchestrator import rows
from sagabus_orchestrator.catalog import Catalog
from sagabus_orchestrator.checks import result_problem, step_problem
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.errors import RivalStart
from sagabus_orchestrator.works import (
    Rejected,
    ResultWork,
    Work,
    stored_record,
    stored_result,
)
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Queries

__all__ = [
    "EarlyResults",
    "Present",
    "RecoveryMode",
    "believed",
    "lasting_problem",
    "meet_starts",
    "present",
]

SQL = Queries("sagabus_orchestrator", "sql/recovery.sql")

EARLY: Final = frozenset({"unknown_saga", "attempt_never_issued"})
"""Why an answer is not believed now, but may be once its command was issued again."""

Receive: TypeAlias = Callable[[Entry, ResultWork], object]
"""Applies an answer to its saga, or defers it where that is paused or a hold pauses it now."""


class RecoveryMode(StrEnum):
    """How the orchestrator treats a database that may know less than the topics do."""

    OFF = "off"
    """Nothing was lost: an answer to what was never asked is a dead letter."""
    REPLAY = "replay"
    """Topics are read again: early answers are kept, and no deadline acts before all are read."""
    SETTLE = "settle"
    """Early answers are kept; deadlines act again, so that what is lost is asked for again."""


def believed(
    works: Iterable[Work], entries: Mapping[str, Entry], mode: RecoveryMode, catalog: Catalog
) -> tuple[list[Work], list[Rejected]]:
    """Part the works from results that must not be believed, as the locked sagas tell."""
    sound: list[Work] = []
    rejected: list[Rejected] = []
    for work in works:
        problem = None
        if isinstance(work, ResultWork):
            problem = result_problem(work, entries.get(work.saga_id))
            if problem is not None and mode is not RecoveryMode.OFF:
                problem = lasting_problem(problem, work, catalog)
            if problem is not None:
                rejected.append(Rejected(work.record, problem))
        if problem is None:
            sound.append(work)
    return sound, rejected


def lasting_problem(problem: Reason, work: ResultWork, catalog: Catalog) -> Reason | None:
    """Return what no command that is still to be issued can mend, or None if one may."""
    if problem.code not in EARLY:
        return problem
    definition = catalog.of_result(work.body)
    return None if definition is None else step_problem(work, definition)


@dataclass(frozen=True, slots=True)
class Present:
    """What is true behind all locks of a transaction; `holds` as `Holds.of` reads them."""

    now_ms: int
    generation: int
    early: bool
    holds: str | None = None


async def present(conn: Connection, saga_ids: Collection[str]) -> Present:
    """Return clock and generation, and whether early answers wait for these sagas."""
    row = await conn.fetchrow(SQL["present"], list(saga_ids))
    await reach("orchestrator.after-clock")
    return Present(*row) if row is not None else Present(0, -1, early=False)


async def meet_starts(conn: Connection, *, starts: bool, strangers: Collection[str]) -> None:
    """Order starts and early answers to unknown sagas, which have no row to lock.

    Raises `RivalStart` if one of the strangers was started meanwhile.
    """
    if strangers:
        await conn.execute(SQL["forbid_starts"])
        await reach("orchestrator.after-forbid-starts")
        known = await conn.fetchval(SQL["count_sagas"], list(strangers))
        await reach("orchestrator.after-count-sagas")
        if known:
            raise RivalStart("rival_start", "another replica started one of these sagas first")
    elif starts:
        await conn.execute(SQL["hold_starts"])
        await reach("orchestrator.after-hold-starts")


@dataclass(frozen=True, slots=True)
class _Waiting:
    work: ResultWork
    stored_id: int | None


class EarlyResults:
    """The early answers of one transaction: those that were kept, and those that came with it."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Waiting]] = {}
        self._done: list[int] = []
        self.letters: list[Rejected] = []
        """What can never be applied; its place is among the dead letters."""

    def __bool__(self) -> bool:
        """Whether any answer waits."""
        return bool(self._waiting)

    async def load(self, conn: Connection, saga_ids: Collection[str], topics: Topics) -> None:
        """Hold what was kept for these sagas, whose locks the caller has."""
        found = await conn.fetch(SQL["take_early"], list(saga_ids))
        await reach("orchestrator.after-take-early")
        for row in sorted(found, key=lambda row: int(row["id"])):
            self._read(row, topics)

    def _read(self, row: asyncpg.Record, topics: Topics) -> None:
        record = stored_record(row)
        try:
            self._put(_Waiting(stored_result(record, topics), row["id"]))
        except MessageError as error:  # kept by a release that could read more than this one
            self._done.append(row["id"])
            self.letters.append(Rejected(record, Reason(error.code, error.detail)))

    def add(self, work: ResultWork) -> None:
        """Keep an answer until its command is issued, later in this transaction or in another."""
        self._put(_Waiting(work, None))

    def _put(self, waiting: _Waiting) -> None:
        self._waiting.setdefault(waiting.work.saga_id, []).append(waiting)

    def catch_up(self, entry: Entry, receive: Receive) -> None:
        """Hand on, in the order in which they came, all answers whose command is issued by now."""
        for work in self._due(entry):
            try:
                receive(entry, work)
            except (IllegalTransition, InvalidValue) as error:
                # The message at hand must not become poison for an old one that it set free.
                self.letters.append(Rejected(work.record, Reason(error.code, error.detail)))

    def _due(self, entry: Entry) -> Iterator[ResultWork]:
        waiting = self._waiting.get(entry.snapshot.saga_id, [])
        while found := next((w for w in waiting if result_problem(w.work, entry) is None), None):
            waiting.remove(found)
            if found.stored_id is not None:
                self._done.append(found.stored_id)
            yield found.work

    @property
    def kept(self) -> list[ResultWork]:
        """What came early and still waits, in order per saga."""
        return [w.work for kept in self._waiting.values() for w in kept if w.stored_id is None]

    async def write(self, conn: Connection, now_ms: int) -> None:
        """Keep what still waits, remove what was kept and is applied now."""
        if self.kept:
            await rows.keep(conn, SQL["keep_early"], self.kept, now_ms)
            await reach("orchestrator.after-keep-early")
        if self._done:
            await conn.execute(SQL["drop_early"], self._done)
            await reach("orchestrator.after-drop-early")
