"""Works off bulk operations: a small batch at a time, each saga once, resumable anywhere.

The place and the counts of a bulk operation move in the transaction that changes a saga, fenced by
the turn: whatever is interrupted where, by whom, `done` is the number of sagas that it changed.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import Final

import asyncpg

from sagabus_core.errors import OperationRefused, SagabusError
from sagabus_orchestrator.audit.acts import Permit
from sagabus_orchestrator.audit.trail import By, record
from sagabus_orchestrator.bulk.bulks import bulk_acts, counted
from sagabus_orchestrator.bulk.rights import FirstRights, Rights
from sagabus_orchestrator.bulk.selection import SQL, Found, Selected, before, select
from sagabus_orchestrator.bulk.values import Bulk, Refusal
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.errors import NotFound, Refused, TurnLost
from sagabus_orchestrator.operations import Operations, Terms
from sagabus_runtime import Pulse, Tracing, get_logger
from sagabus_runtime.errors import is_retryable
from sagabus_runtime.failpoints import hit
from sagabus_store import Connection, Database, StoreUnavailable

__all__ = ["BulkWorker"]

log = get_logger()

SPAN_BULK: Final = "bulk.batch"

_WAITS: Final = frozenset({"rate_limit_exceeded"})
"""What says nothing about the saga, and passes."""
_UNEXPECTED: Final = "unexpected_error"
_OUTAGES: Final = (StoreUnavailable, OSError, TimeoutError)
SYSTEM: Final = "sagabus"
"""Who stops a bulk operation, as the audit names it, where no person does."""


class _Wait(Exception):
    """This batch ends here, and the next one begins later: `note` says why."""

    def __init__(self, note: str) -> None:
        super().__init__(note)
        self.note = note


class BulkWorker:
    """Any number of replicas may work: a lease per bulk operation, fenced by its turn."""

    BATCH: Final = 20
    LEASE_MS: Final = 60_000
    IDLE_MS: Final = 1_000
    WAIT_MS: Final = 2_000
    ATTEMPTS: Final = 3
    """How often a saga is tried whose change fails for no reason that anybody has foreseen."""

    def __init__(
        self,
        database: Database,
        operations: Operations,
        watcher: CatalogWatcher,
        rights: Rights | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._database = database
        self._operations = operations
        self._watcher = watcher
        self._rights = rights or FirstRights()
        self._tracing = tracing or Tracing()

    async def run(self, pulse: Pulse) -> None:
        """Work until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            worked = await self.tick()
            pulse.beat()
            if not worked:
                await pulse.pause(self.IDLE_MS)

    async def tick(self) -> bool:
        """Do one batch of the bulk operation that waits for longest; False: none waits.

        What no retry mends stops that bulk operation, not this process. Raises outages.
        """
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["take_bulk"], self.LEASE_MS)
        if row is None:
            return False
        try:
            await self._turn(row)
        except TurnLost:
            log.info("bulk.turn_lost", bulk_id=str(row["id"]))
        except Exception as error:
            code = error.code if isinstance(error, SagabusError) else _UNEXPECTED
            if is_retryable(error):
                await self._give_back(row, self.WAIT_MS, f"{code}: it goes on after the outage")
                raise
            detail = error.detail if isinstance(error, SagabusError) else "the log says more"
            tell = log.warning if isinstance(error, Refused) else log.exception
            tell("bulk.stopped", bulk_id=str(row["id"]), code=code, detail=detail)
            await self._stop(row, f"{code}: {detail}".replace("\0", ""))
        return True

    async def _turn(self, row: asyncpg.Record) -> None:
        bulk = Bulk.of(row)
        permitted = await self._rights.permitted(bulk)
        bulk = replace(bulk, order=replace(bulk.order, permitted=permitted))
        selected = await self._select(bulk)
        handled = bulk.handled
        try:
            with self._tracing.batch_span(SPAN_BULK, [bulk.traceparent]) as span:
                span.set_attribute("bulk_id", bulk.id)
                for found in selected.sagas:
                    await self._change(bulk, found)
                    handled += 1
        except _Wait as wait:
            await self._give_back(row, self.WAIT_MS, wait.note)
            return
        hit("bulk.before-progress")
        ended = selected.ended or handled >= bulk.order.most
        await self._give_back(row, 0, "", selected.position, ended=ended)

    async def _select(self, bulk: Bulk) -> Selected:
        wanted = replace(bulk.order.wanted, until=before(bulk.order.wanted, bulk.created_at))
        limit = min(self.BATCH, bulk.order.most - bulk.handled)
        if limit <= 0:
            return Selected((), bulk.position, ended=True)
        async with self._database.connection() as conn:
            return await select(conn, self._watcher.current, wanted, bulk.position, limit)

    async def _change(self, bulk: Bulk, found: Found) -> None:
        """Change one saga and count it, or keep why not. Raises `TurnLost`, `_Wait`, outages."""
        refusal = await self._attempts(bulk, found)
        if refusal is None:
            return
        values = (found.saga_id, refusal.business_key, refusal.code)
        detail = refusal.detail.replace("\0", "")
        async with self._database.connection() as conn:
            counted = await conn.fetchval(
                SQL["note_refusal"], bulk.id, bulk.turn, *values, detail, refusal.failed
            )
        hit("bulk.after-refusal")
        if counted is None:
            raise _turn_lost(bulk)

    async def _attempts(self, bulk: Bulk, found: Found) -> Refusal | None:
        """Return why a saga was not changed, or None; an outage is no attempt, and raised."""
        told = (found.saga_id, found.business_key)
        if found.unreadable:
            return Refusal(*told, found.unreadable, "the saga cannot be read", failed=True)
        for attempt in range(1, self.ATTEMPTS + 1):
            try:
                await self._attempt(bulk, found)
            except (*_OUTAGES, TurnLost):
                raise
            except (Refused, NotFound, OperationRefused) as error:
                if error.code in _WAITS:
                    raise _Wait(f"{error.code}: {error.detail}") from error
                return Refusal(*told, error.code, error.detail)
            except Exception as error:
                refusal = _failure(found, error)
                if attempt == self.ATTEMPTS:
                    fields = {"bulk_id": bulk.id, "saga_id": found.saga_id, "code": refusal.code}
                    log.exception("bulk.saga_failed", **fields)
                    return refusal
                await self._look_again()
            else:
                break
        return None

    async def _look_again(self) -> None:
        """Load definitions: that of the saga may have been published just now."""
        with contextlib.suppress(SagabusError):
            await self._watcher.refresh()

    async def _attempt(self, bulk: Bulk, found: Found) -> None:
        async def count(conn: Connection) -> None:
            place = (bulk.id, bulk.turn, found.saga_id)
            if await conn.fetchval(SQL["note_done"], *place) is None:
                raise _turn_lost(bulk)
            hit("bulk.after-count")

        event, terms = bulk.event(found.saga_id), Terms(_permit(bulk), count)
        await self._operations.attempt(found.tenant, found.saga_id, event, terms)

    async def _give_back(
        self,
        row: asyncpg.Record,
        wait_ms: int,
        note: str,
        position: str | None = None,
        *,
        ended: bool = False,
    ) -> None:
        place = (row["id"], row["turn"], position)
        async with self._database.connection() as conn:
            state = await conn.fetchval(SQL["give_bulk_back"], *place, wait_ms, note, ended)
        if state is None:
            log.info("bulk.turn_lost", bulk_id=str(row["id"]))

    async def _stop(self, row: asyncpg.Record, note: str) -> None:
        """Pause a bulk operation until a person resumes it; the audit keeps why."""
        bulk_id = str(row["id"])
        acts = bulk_acts("stop", row["kind"], row["tenants"], bulk_id, By(SYSTEM, note))
        async with self._database.transaction() as conn:
            handled = await conn.fetchval(SQL["stop_bulk"], bulk_id, row["turn"], note)
            if handled is not None:
                await record(conn, acts, counted(acts, handled, "running to paused, handled"))


def _failure(found: Found, error: Exception) -> Refusal:
    told = (found.saga_id, found.business_key)
    if isinstance(error, SagabusError):
        return Refusal(*told, error.code, error.detail, failed=True)
    # What a defect says may hold anything: it goes to the log alone.
    detail = f"a defect ({type(error).__name__}): the log says more under bulk.saga_failed"
    return Refusal(*told, _UNEXPECTED, detail, failed=True)


def _permit(bulk: Bulk) -> Permit:
    permitted = bulk.order.permitted

    def permit(permissions: frozenset[str]) -> None:
        if permitted is not None and not permissions <= permitted:
            raise Refused("permission_denied", f"{bulk.answerable} may not do that")

    return permit


def _turn_lost(bulk: Bulk) -> TurnLost:
    return TurnLost("turn_lost", f"bulk operation {bulk.id} is not this replica's any more")
