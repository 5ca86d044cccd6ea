"""Management operations: one transaction each, recorded with their effect, repeatable by id."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import asyncpg

from sagabus_bus import Reason, dead_letter_row
from sagabus_core.engine import (
    Decision,
    ManagementEvent,
    ManualClose,
    Pause,
    Preview,
    Resume,
    decide,
    preview,
    required_permissions,
)
from sagabus_core.errors import AttemptNeverIssued, IllegalTransition
from sagabus_messages import Signer, Topics
from sagabus_messages.errors import MessageError
from sagabus_messages.strict_json import dump, load
from sagabus_orchestrator import rows, signals
from sagabus_orchestrator.audit.acts import Permit, operation_act, permission_text
from sagabus_orchestrator.audit.trail import Act, Trail, record
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.entry import Entry, Scene
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.holds import Holds, forget, is_held
from sagabus_orchestrator.operation_steps import (
    catch_up,
    check_revision,
    decided,
    unchanged,
    unexpecting,
)
from sagabus_orchestrator.operation_terms import ANYTHING, Beside, OperationOutcome, Terms
from sagabus_orchestrator.operation_text import describe, request_of
from sagabus_orchestrator.recovery import EarlyResults, present
from sagabus_orchestrator.works import (
    Rejected,
    received,
    stored_record,
    stored_result,
)
from sagabus_runtime import Tracing
from sagabus_runtime.failpoints import reach
from sagabus_store import Connection, Database, Queries, outbox

__all__ = ["Beside", "OperationOutcome", "Operations", "Terms"]

SQL = Queries("sagabus_orchestrator", "sql/operations.sql")
SAGAS = Queries("sagabus_orchestrator", "sql/sagas.sql")
KEY_MAX: Final = 128
TAKE_OVER: Final = "pause:take-over"
"""An operator's pause of what a hold has paused already: from then on it is theirs."""


class Operations:
    """Pause, resume, cancel, retry, record an outcome, close: for operators and their tools."""

    def __init__(
        self,
        database: Database,
        topics: Topics,
        watcher: CatalogWatcher,
        *,
        manual_close_enabled: bool = False,
        tracing: Tracing | None = None,
        signer: Signer | None = None,
    ) -> None:
        self._database = database
        self._topics = topics
        self._watcher = watcher
        self._manual_close_enabled = manual_close_enabled
        self._signer = signer
        self._trail = Trail(database)
        self._tracing = tracing or Tracing()

    async def perform(
        self, tenant: str, saga_id: str, event: ManagementEvent, permit: Permit | None = None
    ) -> OperationOutcome:
        """Do an operation once. The same operation id again returns the first outcome, for ever.

        Raises `NotFound` (also for another tenant's saga), `Refused` (`operation_id_reused`,
        `manual_close_disabled`, `invalid_operation`), from the engine `OperationRefused`
        (`precondition_failed`) and `StaleSnapshot`, and whatever `permit` raises. Nothing is
        changed then, and the audit tells of the refusal.
        """
        async with self._trail.refusals_of(operation_act(tenant, saga_id, event)):
            return await self.attempt(tenant, saga_id, event, Terms(permit))

    async def attempt(
        self, tenant: str, saga_id: str, event: ManagementEvent, terms: Terms = ANYTHING
    ) -> OperationOutcome:
        """Do as `perform`, for a caller who keeps refusals in another place than the audit."""
        self._check(event)
        async with self._database.transaction() as conn:
            locked = await rows.lock_sagas(conn, [saga_id])
            if terms.beside is not None:
                await terms.beside(conn)
            # Before anything else: what was done stays answered, also once its saga is archived.
            earlier = await self._earlier(conn, tenant, saga_id, event)
            if earlier is not None:
                return earlier
            entry = await self._entry(conn, tenant, saga_id, locked)
            act = replace(operation_act(tenant, saga_id, event), workflow=entry.snapshot.workflow)
            outcome = await self._apply(conn, entry, event, act, terms)
        entry.end_spans()
        return outcome

    async def dry_run(
        self, tenant: str, saga_id: str, event: ManagementEvent, permit: Permit | None = None
    ) -> Preview:
        """Return what the operation would do now; writes nothing. Raises as `perform` does."""
        self._check(event)
        async with self._database.transaction() as conn:
            locked = await rows.lock_sagas(conn, [saga_id])
            entry = await self._entry(conn, tenant, saga_id, locked)
            here = await present(conn, [saga_id])
            now = here.now_ms
            if permit is not None:
                permit(required_permissions(entry.definition, entry.snapshot, event, now))
            if isinstance(event, Resume):
                decide(entry.definition, entry.snapshot, event, now)
                await self._apply_deferred(conn, entry, now, write=False)
                event = unexpecting(event)
            if isinstance(event, Pause) and await is_held(conn, entry.snapshot):
                check_revision(entry, event)
                return unchanged(entry.snapshot)
            decision = decide(entry.definition, entry.snapshot, event, now)
            Holds.of(here.holds).check(entry.snapshot, decision)
            return preview(entry.definition, entry.snapshot, event, now)

    def _check(self, event: ManagementEvent) -> None:
        operation = event.operation
        for name, value in (("operation id", operation.operation_id), ("actor", operation.actor)):
            if not 1 <= len(value) <= KEY_MAX or not value.isprintable():
                raise Refused(
                    "invalid_operation", f"the {name} must be 1 to {KEY_MAX} printable characters"
                )
        if not operation.reason.strip() or len(operation.reason) > 1_000:
            raise Refused("invalid_operation", "give a reason of 1 to 1000 characters")
        if isinstance(event, ManualClose) and not self._manual_close_enabled:
            raise Refused(
                "manual_close_disabled",
                "closing by hand is off: set SAGABUS_MANUAL_CLOSE_ENABLED=true once every replica "
                "knows the status MANUALLY_CLOSED",
            )

    async def _entry(
        self, conn: Connection, tenant: str, saga_id: str, locked: Sequence[asyncpg.Record]
    ) -> Entry:
        """Return the saga that was locked, if it is there to be changed."""
        if locked and locked[0]["tenant"] == tenant:
            return rows.entry_of(locked[0], self._watcher.current)
        if await conn.fetchval(SQL["is_archived"], saga_id, tenant):
            raise Refused("precondition_failed", f"saga {saga_id} has ended and is in the archive")
        raise NotFound("not_found", f"tenant {tenant!r} has no saga {saga_id}")

    async def _earlier(
        self, conn: Connection, tenant: str, saga_id: str, event: ManagementEvent
    ) -> OperationOutcome | None:
        row = await conn.fetchrow(SQL["find_operation"], tenant, event.operation.operation_id)
        await reach("orchestrator.after-find-operation")
        if row is None:
            return None
        if (str(row["saga_id"]), row["request"]) != (saga_id, request_of(event)):
            raise _reused(event.operation.operation_id)
        return OperationOutcome.of(load(row["outcome"]))

    async def _apply(
        self,
        conn: Connection,
        entry: Entry,
        event: ManagementEvent,
        act: Act,
        terms: Terms,
    ) -> OperationOutcome:
        quotas = await rows.lock_quotas(conn, [entry.snapshot.tenant])
        here = await present(conn, [entry.snapshot.saga_id])
        now = here.now_ms
        permissions = required_permissions(entry.definition, entry.snapshot, event, now)
        terms.allow(permissions, quotas, entry.snapshot.tenant, now)
        decision = await decided(conn, entry, event, now)
        act = _as_told(act, entry, decision)
        scene, early = self._scene(now), EarlyResults()
        if here.early:
            await early.load(conn, [entry.snapshot.saga_id], self._topics)
        if isinstance(event, Resume):
            # What was seen and expected was the saga as it stood before the deferred results.
            early.letters += await self._apply_deferred(conn, entry, now, write=True)
            decision = decide(entry.definition, entry.snapshot, unexpecting(event), now)
            await forget(conn, entry.snapshot.saga_id)
        holds = Holds.of(here.holds)
        holds.check(entry.snapshot, decision)
        entry.take(decision, scene)
        if isinstance(event, ManualClose):
            # Nobody can resume a closed saga: what waits for that is kept as evidence.
            early.letters += await self._apply_deferred(conn, entry, now, write=True)
        deferred = catch_up(early, entry, scene, holds)
        if entry.ended:
            quotas.give_back(entry.snapshot.tenant)
        await rows.write_sagas(conn, [entry], now)
        await rows.defer(conn, deferred, now)
        await holds.write(conn, now)
        await early.write(conn, now)
        await rows.change_quotas(conn, quotas, now)
        await signals.leave(conn, event.kind, entry.metrics)
        dead = [
            dead_letter_row(item.record, item.reason, attempts=1, seen_at_ms=now)
            for item in early.letters
        ]
        await outbox.append(conn, [*entry.rows, *dead])
        await reach("orchestrator.after-outbox")
        outcome = await self._record(conn, entry, event, decision, now)
        await record(conn, replace(act, permission=permission_text(permissions)), str(outcome))
        return outcome

    def _scene(self, now: int) -> Scene:
        return Scene(self._topics, now, self._tracing, self._signer)

    async def _record(
        self, conn: Connection, entry: Entry, event: ManagementEvent, decision: Decision, now: int
    ) -> OperationOutcome:
        operation = event.operation
        outcome = OperationOutcome(
            saga_id=entry.snapshot.saga_id,
            kind=event.kind,
            status=entry.snapshot.status,
            revision=entry.snapshot.revision,
            commands=tuple(describe(command) for command in decision.commands),
        )
        recorded = await conn.fetchval(
            SQL["record_operation"],
            entry.snapshot.tenant,
            operation.operation_id,
            entry.snapshot.saga_id,
            event.kind.value,
            request_of(event),
            dump(outcome.body()),
            rows.instant(now),
        )
        if recorded is None:
            raise _reused(operation.operation_id)  # by a rival that works on another saga
        await reach("orchestrator.after-operation")
        return outcome

    async def _apply_deferred(
        self, conn: Connection, entry: Entry, now: int, *, write: bool
    ) -> list[Rejected]:
        """Apply what came during the pause, in its order; returns what can never be applied."""
        query = SAGAS["take_deferred" if write else "read_deferred"]
        found = sorted(await conn.fetch(query, entry.snapshot.saga_id), key=lambda row: row["id"])
        await reach("orchestrator.after-take-deferred")
        scene = self._scene(now)
        letters: list[Rejected] = []
        for row in found:
            record = stored_record(row)
            try:
                work = stored_result(record, self._topics)
                decision = decide(entry.definition, entry.snapshot, received(work.body), now)
            except (AttemptNeverIssued, IllegalTransition, MessageError) as error:
                letters.append(Rejected(record, Reason(error.code, error.detail)))
                continue
            entry.take(decision, scene, work.meta.traceparent)
        return letters


def _as_told(act: Act, entry: Entry, decision: Decision) -> Act:
    """Return the act under another kind where the saga's journal tells nothing of it.

    The evidence of what was done to a saga and its journal are held against each other.
    """
    return replace(act, kind=TAKE_OVER) if decision.snapshot is entry.snapshot else act


def _reused(operation_id: str) -> Refused:
    return Refused(
        "operation_id_reused",
        f"operation id {operation_id!r} did something else before: choose a new one",
    )
