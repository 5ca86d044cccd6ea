"""Bulk operations, both ways."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sagabus_cli import Api, actor
from sagabus_expressions import CelConditions
from sagabus_orchestrator import cursors
from sagabus_orchestrator.api.models.bulk import (
    BulkAnswer,
    BulkList,
    BulkPreview,
    RefusalAnswer,
    RefusalList,
)
from sagabus_orchestrator.api.models.fields import at
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.bulk import Bulk, BulkOrder, Bulks, BulkState
from sagabus_orchestrator.bulk.selection import FIRST
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.office.ports import BulkVerb, Document, ManyOrder
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.errors import NotFound
from sagabus_store import Database

__all__ = ["DirectBulk", "RemoteBulk"]

T = TypeVar("T")
_PLACE: Final = "/v1/bulk-operations"
_STATES: Final[dict[BulkVerb, BulkState]] = {
    "pause": BulkState.PAUSED,
    "resume": BulkState.RUNNING,
    "cancel": BulkState.CANCELLED,
}


class DirectBulk:
    """Works on the database, as SAGABUS_ACTOR or the user of this machine."""

    def preview_bulk(self, order: ManyOrder) -> Document:
        """Return what a bulk operation would mean now."""

        async def work(bulks: Bulks) -> Document:
            count, samples = await bulks.count(_order(order))
            named = [found.business_key for found in samples]
            told = BulkPreview(matching=count, too_large=count > order.most, samples=named)
            return told.model_dump(mode="json")

        return _with_bulks(work)

    def start_bulk(self, order: ManyOrder) -> Document:
        """Begin a bulk operation."""

        async def work(bulks: Bulks) -> Document:
            return BulkAnswer.of(await bulks.start(_order(order))).model_dump(mode="json")

        return _with_bulks(work)

    def bulk(self, bulk_id: str) -> Document:
        """Return a bulk operation with its progress."""

        async def work(bulks: Bulks) -> Document:
            return BulkAnswer.of(await bulks.get(bulk_id)).model_dump(mode="json")

        return _with_bulks(work)

    def bulk_refusals(self, bulk_id: str, limit: int, cursor: str | None) -> Document:
        """Return sagas that a bulk operation could not change."""

        async def work(bulks: Bulks) -> Document:
            await bulks.get(bulk_id)
            behind = FIRST if cursor is None else cursors.saga_id(cursor)
            found = await bulks.refusals(bulk_id, limit + 1, behind)
            page = list(map(RefusalAnswer.of, found[:limit]))
            more = page[-1].saga_id if len(found) > limit else None
            return RefusalList(refusals=page, next_cursor=more).model_dump(mode="json")

        return _with_bulks(work)

    def bulks(self, limit: int, cursor: str | None) -> Document:
        """Return bulk operations, newest first."""

        async def work(bulks: Bulks) -> Document:
            found = await bulks.list(limit + 1, None, await _below(bulks, cursor))
            page = list(map(BulkAnswer.of, found[:limit]))
            more = page[-1].id if len(found) > limit else None
            return BulkList(bulk_operations=page, next_cursor=more).model_dump(mode="json")

        return _with_bulks(work)

    def steer_bulk(self, bulk_id: str, verb: BulkVerb, reason: str) -> Document:
        """Pause, go on with or end a bulk operation."""
        by = By(actor(), reason)

        async def work(bulks: Bulks) -> Document:
            return BulkAnswer.of(await bulks.steer(bulk_id, _STATES[verb], by)).model_dump(
                mode="json"
            )

        return _with_bulks(work)


class RemoteBulk:
    """Asks the API: on sagas of the caller's tenants."""

    _api: Api

    def preview_bulk(self, order: ManyOrder) -> Document:
        """Return what a bulk operation would mean now."""
        return self._api.post(f"{_PLACE}/preview", _question(order))

    def start_bulk(self, order: ManyOrder) -> Document:
        """Begin a bulk operation."""
        return self._api.post(_PLACE, _question(order))

    def bulk(self, bulk_id: str) -> Document:
        """Return a bulk operation with its progress."""
        return self._api.get(f"{_PLACE}/{bulk_id}")

    def bulk_refusals(self, bulk_id: str, limit: int, cursor: str | None) -> Document:
        """Return sagas that a bulk operation could not change."""
        return self._api.get(f"{_PLACE}/{bulk_id}/refusals", {"limit": limit, "cursor": cursor})

    def bulks(self, limit: int, cursor: str | None) -> Document:
        """Return bulk operations, newest first."""
        return self._api.get(_PLACE, {"limit": limit, "cursor": cursor})

    def steer_bulk(self, bulk_id: str, verb: BulkVerb, reason: str) -> Document:
        """Pause, go on with or end a bulk operation."""
        return self._api.post(f"{_PLACE}/{bulk_id}/{verb}", {"reason": reason})


async def _below(bulks: Bulks, cursor: str | None) -> Bulk | None:
    """Return the last bulk operation of the page before, as the API does."""
    if cursor is None:
        return None
    try:
        return await bulks.get(cursors.saga_id(cursor))
    except NotFound as error:
        raise cursors.malformed() from error


def _with_bulks(work: Callable[[Bulks], Awaitable[T]]) -> T:
    async def run(database: Database) -> T:
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        return await work(Bulks(database, watcher))

    return with_database(run)


def _order(order: ManyOrder) -> BulkOrder:
    return BulkOrder(
        kind=order.kind,
        wanted=order.wanted,
        most=order.most,
        actor=actor(),
        reason=order.reason,
        operation_id=order.operation_id,
    )


def _question(order: ManyOrder) -> Document:
    wanted = order.wanted
    (tenant,) = wanted.tenants or (None,)
    told = {
        "tenant": tenant,
        "workflow": wanted.workflow,
        "statuses": None if wanted.statuses is None else [str(each) for each in wanted.statuses],
        "key_prefix": wanted.key_prefix,
        "control": wanted.control,
        "since": None if wanted.since is None else at(wanted.since),
        "until": None if wanted.until is None else at(wanted.until),
        "participant": wanted.participant,
        "step": wanted.step,
    }
    return {
        "kind": order.kind.value,
        "filter": {name: value for name, value in told.items() if value is not None},
        "most": order.most,
        "reason": order.reason,
        "operation_id": order.operation_id,
    }
