"""Begins, shows and steers bulk operations; the worker does them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sagabus_orchestrator.audit.trail import Act, By, Trail, record
from sagabus_orchestrator.bulk.selection import FIRST, SQL, Found, before, matching
from sagabus_orchestrator.bulk.values import Bulk, BulkOrder, BulkState, Refusal
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.rows import instant
from sagabus_store import Database

__all__ = ["MOST", "Bulks", "bulk_acts", "counted"]

MOST: Final = 1_000_000
_PAGE: Final = 500
_SAMPLES: Final = 10
_NAME_MAX: Final = 128
_REASON_MAX: Final = 900
_FROM: Final = {
    BulkState.CANCELLED: (BulkState.RUNNING, BulkState.PAUSED),
    BulkState.PAUSED: (BulkState.RUNNING,),
    BulkState.RUNNING: (BulkState.PAUSED,),
}
_VERB: Final = {
    BulkState.CANCELLED: "cancel",
    BulkState.PAUSED: "pause",
    BulkState.RUNNING: "resume",
}


class Bulks:
    """Bulk operations of one database; `tenants` limits what a caller sees (None: nothing)."""

    def __init__(self, database: Database, watcher: CatalogWatcher) -> None:
        self._database = database
        self._watcher = watcher
        self._trail = Trail(database)

    async def count(self, order: BulkOrder) -> tuple[int, tuple[Found, ...]]:
        """Return how many sagas an order means now (counted to one more than `most`), and some."""
        _check(order)
        until = before(order.wanted, instant(await self._database.now_ms()))
        wanted, count = replace(order.wanted, until=until), 0
        samples: list[Found] = []
        async for found in matching(self._database, self._watcher.current, wanted, _PAGE):
            count += 1
            if len(samples) < _SAMPLES:
                samples.append(found)
            if count > order.most:
                break
        return count, tuple(samples)

    async def start(self, order: BulkOrder, traceparent: str | None = None) -> Bulk:
        """Begin a bulk operation once: the same operation id of the same actor returns the first.

        Raises `Refused`: `bulk_too_large` if more sagas match than `most`, `operation_id_reused`,
        `invalid_operation`. Each saga is then changed in a transaction of its own, as by
        `Operations.perform`, under an operation id that derives from the bulk's and the saga's.
        The trace of each saga links `traceparent`, the place of the request.
        """
        acts = _acts("start", order, By(order.actor, order.reason, order.operation_id))
        async with self._trail.refusals_of(*acts):
            known = await self._known(order)
            if known is not None:
                return known
            count, _ = await self.count(order)
            if count > order.most:
                raise Refused(
                    "bulk_too_large",
                    f"more than {order.most} sagas match: narrow the filter, or raise the limit",
                )
            async with self._database.transaction() as conn:
                wanted = order.wanted
                begun = await conn.fetchval(
                    SQL["begin_bulk"],
                    order.id,
                    order.operation_id,
                    order.kind.value,
                    None if wanted.tenants is None else list(wanted.tenants),
                    json.dumps(wanted.plain()),
                    order.most,
                    None if order.permitted is None else sorted(order.permitted),
                    order.actor,
                    order.reason,
                    traceparent,
                )
                if begun is not None:
                    await record(conn, acts, counted(acts, count, f"{order.kind} of"))
            bulk = await self.get(order.id)
            _check_same(bulk, order)  # a rival may have taken the id just now
            return bulk

    async def _known(self, order: BulkOrder) -> Bulk | None:
        _check(order)
        try:
            known = await self.get(order.id)
        except NotFound:
            return None
        _check_same(known, order)
        return known

    async def get(self, bulk_id: str, tenants: Sequence[str] | None = None) -> Bulk:
        """Return a bulk operation with its progress. Raises `NotFound`."""
        async with self._database.connection() as conn:
            row = await conn.fetchrow(SQL["find_bulk"], bulk_id)
        found = None if row is None else Bulk.of(row)
        if found is None or not _is_visible(found, tenants):
            raise NotFound("not_found", f"there is no bulk operation {bulk_id}")
        return found

    async def refusals(self, bulk_id: str, limit: int, behind: str = FIRST) -> list[Refusal]:
        """Return the sagas that could not be changed, in id order, with the reasons."""
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["refusals"], bulk_id, behind, limit)
        return [
            Refusal(str(row["saga_id"]), row["business_key"], row["code"], row["detail"])
            for row in rows
        ]

    async def steer(
        self,
        bulk_id: str,
        state: BulkState,
        by: By,
        tenants: Sequence[str] | None = None,
        permitted: frozenset[str] | None = None,
    ) -> Bulk:
        """Cancel, pause or go on with a bulk operation; what it has done stays done.

        At most the saga in hand is still changed. Whoever lets it go on answers for what it does
        from then on, with the rights `permitted` (see `BulkOrder`). Raises `NotFound`, `Refused`
        (`precondition_failed`).
        """
        known = await self.get(bulk_id, tenants)
        acts = _acts(_VERB.get(state, str(state)), known.order, by)
        came_from = [each.value for each in _FROM.get(state, ())]
        rights = None if permitted is None else sorted(permitted)
        async with self._trail.refusals_of(*acts):
            async with self._database.transaction() as conn:
                handled = await conn.fetchval(
                    SQL["steer_bulk"], bulk_id, state.value, came_from, by.actor, rights
                )
                if handled is not None:
                    told = f"{known.state} to {state}, handled"
                    await record(conn, acts, counted(acts, handled, told))
            found = await self.get(bulk_id, tenants)
            if handled is None:
                raise Refused("precondition_failed", f"the bulk operation is {found.state}")
            return found

    async def list(
        self, limit: int, tenants: Sequence[str] | None = None, below: Bulk | None = None
    ) -> list[Bulk]:
        """Return bulk operations, newest first, those below one that was returned before."""
        scope = None if tenants is None else list(tenants)
        place = (None, None) if below is None else (below.created_at, below.id)
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["list_bulks"], scope, *place, limit)
        return [Bulk.of(row) for row in rows]


def _check_same(known: Bulk, order: BulkOrder) -> None:
    if _asked(known.order) != _asked(order):
        raise Refused(
            "operation_id_reused",
            f"operation id {order.operation_id!r} did something else before: choose a new one",
        )


def _asked(order: BulkOrder) -> tuple[object, ...]:
    tenants = order.wanted.tenants
    meant = None if tenants is None else sorted(tenants)
    return (order.kind, order.wanted.plain(), order.most, meant)


def _is_visible(bulk: Bulk, tenants: Sequence[str] | None) -> bool:
    if tenants is None:
        return True
    own = bulk.order.wanted.tenants
    # One on nobody's sagas is no business of everybody.
    return bool(own) and set(own or ()) <= set(tenants)


def bulk_acts(
    verb: str, kind: str, tenants: Sequence[str] | None, bulk_id: str, by: By, workflow: str = ""
) -> tuple[Act, ...]:
    """Return what is done to a bulk operation as the audit names it, for each of its tenants."""
    act = Act(
        kind=f"bulk:{verb}",
        by=by,
        subject=bulk_id,
        permission=f"bulk:run saga:{kind}",
        workflow=workflow,
    )
    return act.of_each(tenants or ())


def counted(acts: Sequence[Act], count: int, told: str) -> str:
    """Tell how many sagas, unless that is the number of several tenants: each reads its own row."""
    return f"{told} {count} sagas" if len(acts) == 1 else f"{told} sagas of several tenants"


def _acts(verb: str, order: BulkOrder, by: By) -> tuple[Act, ...]:
    wanted = order.wanted
    return bulk_acts(verb, order.kind, wanted.tenants, order.id, by, wanted.workflow or "")


def _check(order: BulkOrder) -> None:
    for name, value in (("operation id", order.operation_id), ("actor", order.actor)):
        if not 1 <= len(value) <= _NAME_MAX or not value.isprintable():
            raise Refused(
                "invalid_operation", f"the {name} must be 1 to {_NAME_MAX} printable characters"
            )
    if not order.reason.strip() or len(order.reason) > _REASON_MAX:
        raise Refused("invalid_operation", f"give a reason of 1 to {_REASON_MAX} characters")
    if not 1 <= order.most <= MOST:
        raise Refused("invalid_operation", f"say how many sagas at most: 1 to {MOST}")
