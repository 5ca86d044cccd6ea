"""The desk of one transaction: lock, claim, decide in order, write.

The number of statements does not depend on the size of the batch.
Lock order: sagas by id, inbox, definitions, quota rows by tenant, keys of new sagas by id. Time is
the database clock, read after the locks that decisions depend on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sagabus_bus import dead_letter_row
from sagabus_core import ids
from sagabus_core.definitions import Definition, DefinitionState
from sagabus_core.engine import Decision, Event, Snapshot, Sweep, WakeupDelivered, decide, start
from sagabus_core.errors import InvalidValue, SagabusError
from sagabus_messages import OutboxRow
from sagabus_orchestrator import recovery, rows, starts
from sagabus_orchestrator.catalog import Catalog, DefinitionRef
from sagabus_orchestrator.checks import result_problem
from sagabus_orchestrator.entry import Entry, Scene
from sagabus_orchestrator.errors import Held, RivalStart, StaleCatalog
from sagabus_orchestrator.holds import Holds
from sagabus_orchestrator.outcome import Outcome
from sagabus_orchestrator.quotas import Quotas
from sagabus_orchestrator.recovery import EarlyResults, RecoveryMode
from sagabus_orchestrator.starts import KnownKey, NewKey, StartAnswer
from sagabus_orchestrator.upkeep.proof import defect_of
from sagabus_orchestrator.upkeep.shelf import Shelf
from sagabus_orchestrator.works import (
    Intake,
    ResultWork,
    StartWork,
    SweepWork,
    WakeupWork,
    Work,
    received,
)
from sagabus_runtime.failpoints import reach
from sagabus_store import Claim, Connection, inbox, outbox

__all__ = ["CONSUMER", "Desk"]

CONSUMER = "sagabus-orchestrator"


class Desk:
    """Decides a batch inside the caller's transaction; made anew for each."""

    def __init__(
        self,
        conn: Connection,
        scene: Scene,
        catalog: Catalog,
        mode: RecoveryMode = RecoveryMode.OFF,
    ) -> None:
        self._conn = conn
        self._mode, self._recovering = mode, mode is not RecoveryMode.OFF
        self._early = EarlyResults()
        self._catalog = catalog
        self._choices = starts.Choices(catalog)
        self._shelf = Shelf(conn)
        self._scene = scene
        self._entries: dict[str, Entry] = {}
        self._known: dict[str, KnownKey] = {}
        self._new: dict[str, NewKey] = {}
        self._refused: dict[str, StartWork] = {}
        self._answers: list[OutboxRow] = []
        self._startable: dict[DefinitionRef, DefinitionState] = {}
        self._quotas = Quotas()
        self._holds = Holds()
        self._outcome = Outcome()

    async def settle(self, intake: Intake) -> Outcome:
        """Decide and write everything; the caller commits. Raises for what must not be written."""
        self._outcome.rejected.extend(intake.rejected)
        await self._lock(intake.works)
        sound, rejected = recovery.believed(intake.works, self._entries, self._mode, self._catalog)
        self._outcome.rejected.extend(rejected)
        works = await self._claim(sound)
        await reach("orchestrator.after-claim")
        await self._lock_rules(works)
        await self._look(works)
        for work in works:
            self._decide(work)
        await self._take_keys()
        await self._check_refused()
        await self._write()
        return self._outcome

    async def _lock(self, works: Sequence[Work]) -> None:
        wanted = sorted({work.saga_id for work in works})
        if not wanted:
            return
        started = {work.saga_id: work for work in works if isinstance(work, StartWork)}
        if started:
            self._known = await rows.known_keys(self._conn, started)
        for row in await rows.lock_sagas(self._conn, wanted):
            entry = rows.entry_of(row, self._catalog)
            self._entries[entry.snapshot.saga_id] = entry
        late = {work.saga_id for work in works if isinstance(work, ResultWork)}
        for entry in await self._shelf.lock(late - self._entries.keys(), self._catalog):
            self._entries[entry.snapshot.saga_id] = entry

    async def _claim(self, works: list[Work]) -> list[Work]:
        claims = [
            Claim(work.meta.source, work.meta.ce_id, work.meta.ce_time_ms)
            for work in works
            if not isinstance(work, SweepWork)
        ]
        fresh = iter(await inbox.claim(self._conn, CONSUMER, claims))
        first = [work for work in works if isinstance(work, SweepWork) or next(fresh)]
        self._outcome.repeats = len(works) - len(first)
        return first

    async def _lock_rules(self, works: Iterable[Work]) -> None:
        """Hold the definitions of new sagas and the quotas of all tenants that are concerned."""
        new = [w for w in works if isinstance(w, StartWork) and w.saga_id not in self._known]
        if new:
            await self._hold_definitions(new)
        results = {work.saga_id for work in works if isinstance(work, ResultWork)}
        strangers = results - self._entries.keys()  # in recovery mode only: see `_believed`
        await recovery.meet_starts(self._conn, starts=bool(new), strangers=strangers)
        tenants = {entry.snapshot.tenant for entry in self._entries.values()}
        self._quotas = await rows.lock_quotas(self._conn, tenants | {w.body.tenant for w in new})

    async def _hold_definitions(self, works: Iterable[StartWork]) -> None:
        self._startable = await rows.share_definitions(self._conn, self._choices.all(works))

    async def _look(self, works: Iterable[Work]) -> None:
        """Look at clock, definitions and early answers, behind all locks but those of new keys."""
        sagas = {work.saga_id for work in works}
        present = await recovery.present(self._conn, sagas)
        starts = any(isinstance(w, StartWork) and w.saga_id not in self._known for w in works)
        # A start must not be refused, or get an old version, because this replica has not yet
        # seen what somebody has published or activated before.
        if starts and present.generation != self._catalog.generation:
            raise StaleCatalog("stale_catalog", "the definitions have changed: load them first")
        self._scene = replace(self._scene, now_ms=present.now_ms)
        self._holds = Holds.of(present.holds)
        if present.early:
            await self._early.load(self._conn, sagas, self._scene.topics)

    def _decide(self, work: Work) -> None:
        match work:
            case StartWork():
                self._start(work)
            case ResultWork():
                self._result(work)
            case WakeupWork():
                self._wake(work)
            case SweepWork():
                self._sweep(work)
        entry = self._entries.get(work.saga_id) if self._early else None
        if entry is not None:
            self._early.catch_up(entry, self._receive)

    def _result(self, work: ResultWork) -> None:
        entry = self._entries.get(work.saga_id)
        if entry is None or (self._recovering and result_problem(work, entry) is not None):
            self._early.add(work)  # its command may be issued later in this very batch
            return
        if self._receive(entry, work):
            self._outcome.results.append(work)

    def _receive(self, entry: Entry, work: ResultWork) -> bool:
        """Apply an answer, or defer it; says whether it reached its saga."""
        event, trace = received(work.body), work.meta.traceparent
        if self._holds.receive(entry, event, self._scene, self._take, trace):
            return True
        self._outcome.deferred.append(work)
        return False

    def _wake(self, work: WakeupWork) -> None:
        entry = self._entries.get(work.saga_id)
        if entry is None:
            return  # archived, or its creation was lost with a restored database: nothing to wake
        if self._mode is RecoveryMode.REPLAY:
            return  # its answer may be among what is still to be read; the sweep acts afterwards
        event = WakeupDelivered(work.meta.ce_id, work.body.generation)
        self._due(entry, event, entry.snapshot, work.meta.traceparent)

    def _sweep(self, work: SweepWork) -> None:
        entry = self._entries.get(work.saga_id)
        if entry is None:
            return
        saga, now = entry.snapshot, self._scene.now_ms
        if work.repair and defect_of(saga, now) is not None:
            saga = saga._replace(armed_at_ms=now)  # the engine takes it for a wake-up that is due
        event = Sweep(ids.wakeup_id(work.saga_id, saga.generation))
        self._due(entry, event, saga)

    def _due(
        self, entry: Entry, event: Event, saga: Snapshot, traceparent: str | None = None
    ) -> None:
        """Take what is due; paused by a hold instead, the saga still has it delivered."""
        decision = self._holds.decided(entry, event, saga, self._scene, self._take)
        if decision is None:
            decision = decide(entry.definition, entry.snapshot, event, self._scene.now_ms)
        self._take(entry, decision, traceparent)

    def _take(self, entry: Entry, decision: Decision, traceparent: str | None = None) -> None:
        before = entry.snapshot.status
        entry.take(decision, self._scene, traceparent)
        if entry.snapshot.status.is_terminal and not before.is_terminal:
            self._quotas.give_back(entry.snapshot.tenant)

    def _start(self, work: StartWork) -> None:
        known = self._known.get(work.saga_id)
        if known is not None:
            entry = self._entries.get(work.saga_id)
            present = known if entry is None else known.at(entry.snapshot)
            self._answer(starts.answer_known(work, present))
            return
        ref = self._choices.of(work)
        if isinstance(ref, SagabusError):
            self._refuse(work, ref)
        elif not starts.may_start(work, self._startable.get(ref)):
            self._refuse(work, starts.inactive(ref))
        elif code := self._quotas.refusal(work.body.tenant, self._scene.now_ms):
            self._refuse(work, starts.limited(work, code))
        else:
            self._create(work, ref, self._catalog.definitions[ref])

    def _create(self, work: StartWork, ref: DefinitionRef, definition: Definition) -> None:
        try:
            decision = start(definition, work.request, self._scene.now_ms)
            self._holds.check(decision.snapshot, decision)
        except (InvalidValue, Held) as error:
            self._refuse(work, error)
            return
        entry = Entry.new(ref.scope, definition, decision.snapshot, work.meta.ce_id)
        self._quotas.take(work.body.tenant)
        self._take(entry, decision, work.meta.traceparent)
        if entry.snapshot.status.is_terminal:
            self._quotas.give_back(work.body.tenant)
        self._entries[work.saga_id] = entry
        key = NewKey.of(work, ref, definition)
        self._new[work.saga_id] = key
        known = self._known[work.saga_id] = key.known(entry.snapshot)
        self._outcome.answers.append(StartAnswer(work, known, created=True))

    def _refuse(self, work: StartWork, problem: SagabusError) -> None:
        self._outcome.refused[problem.code] += 1
        self._refused[work.saga_id] = work
        self._answer(StartAnswer(work, problem))

    def _answer(self, answer: StartAnswer) -> None:
        """Put an answer in its place among the records of its saga, or before a saga begins."""
        self._outcome.answers.append(answer)
        entry = self._entries.get(answer.work.saga_id)
        rows_of_key = self._answers if entry is None else entry.rows
        rows_of_key.append(answer.row(self._scene))

    async def _take_keys(self) -> None:
        """Take the keys of new sagas, last of all locks; raises `RivalStart` if one is taken."""
        if not self._new:
            return
        taken = await rows.take_keys(self._conn, list(self._new.values()))
        if len(taken) < len(self._new):
            # A rival committed one of these keys just now: decide again, with its saga in sight.
            raise RivalStart("rival_start", "another replica started one of these sagas first")

    async def _check_refused(self) -> None:
        """Refuse no start whose key a rival took while we waited for its locks: it is known now."""
        doubtful = {saga: w for saga, w in self._refused.items() if saga not in self._new}
        if doubtful and await rows.known_keys(self._conn, doubtful):
            raise RivalStart("rival_start", "another replica started one of these sagas first")

    async def _write(self) -> None:
        entries = list(self._entries.values())
        self._outcome.entries = entries
        now = self._scene.now_ms
        await rows.write_sagas(self._conn, [e for e in entries if not e.archived], now)
        await self._shelf.write([e for e in entries if e.archived and e.changed], now)
        await rows.defer(self._conn, self._outcome.deferred, now)
        await self._holds.write(self._conn, now)
        await self._early.write(self._conn, now)
        self._outcome.early = self._early.kept
        self._outcome.rejected += self._early.letters
        await rows.change_quotas(self._conn, self._quotas, now)
        letters = [
            dead_letter_row(item.record, item.reason, attempts=1, seen_at_ms=now)
            for item in self._outcome.rejected
        ]
        records = [row for entry in entries for row in entry.rows]
        await outbox.append(self._conn, [*self._answers, *records, *letters])
        await reach("orchestrator.after-outbox")
