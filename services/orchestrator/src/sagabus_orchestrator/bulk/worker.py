"""Works off bulk operations: a small batch at a time, each saga once, resumable anywhere.

A batch that was interrupted is done again: the operation ids derive from bulk and saga, so what was
done returns its first outcome and is counted now.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sagabus_core.errors import SagabusError
from sagabus_orchestrator.bulk.selection import SQL, Found, Selected, before, select
from sagabus_orchestrator.bulk.values import Bulk, Refusal
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.operations import Operations
from sagabus_runtime import Pulse, Tracing, get_logger
from sagabus_runtime.failpoints import hit
from sagabus_store import Database, StoreUnavailable

__all__ = ["BulkWorker"]

log = get_logger()

SPAN_BULK: Final = "bulk.batch"

_WAITS: Final = frozenset({"rate_limit_exceeded"})
"""What says nothing about the saga, and passes."""


@dataclass(slots=True)
class _Batch:
    """What became of the sagas of one batch; `position`: all up to here are done with."""

    position: str
    done: int = 0
    note: str = ""
    told: list[Refusal] = field(default_factory=list)

    @property
    def failed(self) -> int:
        """How many could not be changed for no reason of their own."""
        return sum(each.failed for each in self.told)


class BulkWorker:
    """Any number of replicas may work: a lease per bulk operation, fenced by its turn."""

    BATCH: Final = 20
    LEASE_MS: Final = 60_000
    IDLE_MS: Final = 1_000
    WAIT_MS: Final = 2_000

    def __init__(
        self,
        database: Database,
        operations: Operations,
        watcher: CatalogWatcher,
        tracing: Tracing | None = None,
    ) -> None:
        self._database = database
        self._operations = operations
        self._watcher = watcher
        self._tracing = tracing or Tracing()

    async def run(self, pulse: Pulse) -> None:
        """Work until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            worked = await self.tick()
            pulse.beat()
            if not worked:
                await pulse.pause(self.IDLE_MS)

    async def tick(self) -> bool:
        """Do one batch of the bulk operation that waits for longest; False: none waits."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["take_bulk"], self.LEASE_MS)
        if row is None:
            return False
        bulk = Bulk.of(row)
        selected = await self._select(bulk)
        with self._tracing.batch_span(SPAN_BULK, [bulk.traceparent]) as span:
            span.set_attribute("bulk_id", bulk.id)
            batch = await self._work(bulk, selected)
        hit("bulk.before-progress")
        await self._give_back(bulk, selected, batch)
        return True

    async def _select(self, bulk: Bulk) -> Selected:
        wanted = replace(bulk.order.wanted, until=before(bulk.order.wanted, bulk.created_at))
        limit = min(self.BATCH, bulk.order.most - bulk.handled)
        if limit <= 0:
            return Selected((), bulk.position, ended=True)
        async with self._database.connection() as conn:
            return await select(conn, self._watcher.current, wanted, bulk.position, limit)

    async def _work(self, bulk: Bulk, selected: Selected) -> _Batch:
        batch = _Batch(bulk.position)
        for found in selected.sagas:
            refusal = await self._one(bulk, found)
            if refusal is None:
                batch.done += 1
            elif refusal.code in _WAITS:
                batch.note = f"{refusal.code}: {refusal.detail}"
                return batch
            else:
                batch.told.append(refusal)
            batch.position = found.saga_id
        batch.position = selected.position
        return batch

    async def _one(self, bulk: Bulk, found: Found) -> Refusal | None:
        """Change one saga; return why not. Raises `StoreUnavailable`: the batch comes again."""

        def permit(permissions: frozenset[str]) -> None:
            if bulk.order.permitted is not None and not permissions <= bulk.order.permitted:
                raise Refused("permission_denied", f"{bulk.order.actor} may not do that")

        try:
            event = bulk.event(found.saga_id)
            await self._operations.attempt(found.tenant, found.saga_id, event, permit)
        except StoreUnavailable:
            raise
        except SagabusError as error:
            told = (found.saga_id, found.business_key, error.code, error.detail)
            return Refusal(*told, failed=error.retryable)
        return None

    async def _give_back(self, bulk: Bulk, selected: Selected, batch: _Batch) -> None:
        waits = bool(batch.note)
        handled = bulk.handled + batch.done + len(batch.told)
        ended = not waits and (selected.ended or handled >= bulk.order.most)
        async with self._database.transaction() as conn:
            state = await conn.fetchval(
                SQL["give_bulk_back"],
                bulk.id,
                bulk.turn,
                batch.position,
                batch.done,
                len(batch.told) - batch.failed,
                batch.failed,
                self.WAIT_MS if waits else 0,
                batch.note,
                ended,
            )
            if state is not None and batch.told:
                await conn.execute(SQL["note_refusals"], bulk.id, *_columns(batch.told))
        if state is None:
            log.info("bulk.turn_lost", bulk_id=bulk.id)


def _columns(told: Sequence[Refusal]) -> tuple[list[str], ...]:
    return (
        [each.saga_id for each in told],
        [each.business_key for each in told],
        [each.code for each in told],
        [each.detail.replace("\0", "") for each in told],
    )
