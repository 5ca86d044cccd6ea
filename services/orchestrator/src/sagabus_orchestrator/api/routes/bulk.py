"""Bulk operations: begun, watched, steered; the orchestrator works them off."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query

from sagabus_core.engine import OperationKind
from sagabus_orchestrator import cursors
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import (
    OPERATION_PERMISSIONS,
    Permission,
    Principal,
    engine_rights,
)
from sagabus_orchestrator.api.models.bulk import (
    BulkAnswer,
    BulkList,
    BulkListQuestion,
    BulkPreview,
    BulkQuestion,
    RefusalAnswer,
    RefusalList,
    RefusalsQuestion,
    SteerBulkQuestion,
)
from sagabus_orchestrator.api.models.fields import SagaId, moment
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.bulk import Bulk, BulkFilter, BulkOrder, BulkState
from sagabus_orchestrator.bulk.selection import FIRST
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.queries import SagaFilter

__all__ = ["router"]

router = new_router("bulk operations")

PLACE = "/bulk-operations"
_REFUSALS = refusals(404, 409)


@router.post(PLACE, status_code=202, response_model=BulkAnswer, responses=_REFUSALS)
@permitted(Permission.BULK_RUN)
async def start_bulk(question: BulkQuestion, caller: Caller, services: Services) -> BulkAnswer:
    """Begin an operation on every saga that fits; takes the permission of the operation too.

    Each saga is changed in a transaction of its own, once; those that refuse are listed.
    """
    order = _order(caller, question)
    with services.shares.scans.held_by(caller.actor):
        return BulkAnswer.of(await services.bulks.start(order))


@router.post(f"{PLACE}/preview", response_model=BulkPreview, responses=_REFUSALS)
@permitted(Permission.BULK_RUN)
async def preview_bulk(question: BulkQuestion, caller: Caller, services: Services) -> BulkPreview:
    """Count what a bulk operation would mean now, and name some; begins nothing."""
    order = _order(caller, question)
    with services.shares.scans.held_by(caller.actor):
        count, samples = await services.bulks.count(order)
    named = [found.business_key for found in samples]
    return BulkPreview(matching=count, too_large=count > order.most, samples=named)


@router.get(PLACE, response_model=BulkList, responses=_REFUSALS)
@permitted(Permission.BULK_READ)
async def list_bulks(
    caller: Caller, services: Services, asked: Annotated[BulkListQuestion, Query()]
) -> BulkList:
    """List bulk operations, newest first: those on sagas of the caller's tenants alone."""
    scope = caller.tenants.as_filter()
    below = await _below(services, asked.cursor, scope)
    found = await services.bulks.list(asked.limit + 1, scope, below)
    page = found[: asked.limit]
    more = len(found) > asked.limit
    return BulkList(
        bulk_operations=list(map(BulkAnswer.of, page)), next_cursor=page[-1].id if more else None
    )


@router.get(f"{PLACE}/{{bulk_id}}", response_model=BulkAnswer, responses=_REFUSALS)
@permitted(Permission.BULK_READ)
async def get_bulk(bulk_id: SagaId, caller: Caller, services: Services) -> BulkAnswer:
    """Return a bulk operation with its progress."""
    return BulkAnswer.of(await services.bulks.get(bulk_id, caller.tenants.as_filter()))


@router.get(f"{PLACE}/{{bulk_id}}/refusals", response_model=RefusalList, responses=_REFUSALS)
@permitted(Permission.BULK_READ)
async def list_refusals(
    bulk_id: SagaId,
    caller: Caller,
    services: Services,
    asked: Annotated[RefusalsQuestion, Query()],
) -> RefusalList:
    """List the sagas that a bulk operation could not change, with the reasons."""
    await services.bulks.get(bulk_id, caller.tenants.as_filter())
    behind = FIRST if asked.cursor is None else cursors.saga_id(asked.cursor)
    found = await services.bulks.refusals(bulk_id, asked.limit + 1, behind)
    page = found[: asked.limit]
    more = len(found) > asked.limit
    return RefusalList(
        refusals=list(map(RefusalAnswer.of, page)), next_cursor=page[-1].saga_id if more else None
    )


@router.post(f"{PLACE}/{{bulk_id}}/cancel", response_model=BulkAnswer, responses=_REFUSALS)
@permitted(Permission.BULK_RUN)
async def cancel_bulk(
    bulk_id: SagaId, question: SteerBulkQuestion, caller: Caller, services: Services
) -> BulkAnswer:
    """End a bulk operation; what it has done stays done."""
    return await _steer(services, caller, bulk_id, BulkState.CANCELLED, question)


@router.post(f"{PLACE}/{{bulk_id}}/pause", response_model=BulkAnswer, responses=_REFUSALS)
@permitted(Permission.BULK_RUN)
async def pause_bulk(
    bulk_id: SagaId, question: SteerBulkQuestion, caller: Caller, services: Services
) -> BulkAnswer:
    """Hold a bulk operation behind its present batch."""
    return await _steer(services, caller, bulk_id, BulkState.PAUSED, question)


@router.post(f"{PLACE}/{{bulk_id}}/resume", response_model=BulkAnswer, responses=_REFUSALS)
@permitted(Permission.BULK_RUN)
async def resume_bulk(
    bulk_id: SagaId, question: SteerBulkQuestion, caller: Caller, services: Services
) -> BulkAnswer:
    """Go on with a bulk operation that was paused, or stopped since its key lost its rights.

    You answer for what it does from now on, and your rights are those that count.
    """
    return await _steer(services, caller, bulk_id, BulkState.RUNNING, question)


async def _below(services: Backend, cursor: str | None, scope: Sequence[str] | None) -> Bulk | None:
    """Return the last bulk operation of the page before, if the caller may see it."""
    if cursor is None:
        return None
    try:
        return await services.bulks.get(cursors.saga_id(cursor), scope)
    except NotFound as error:
        raise cursors.malformed() from error


async def _steer(
    services: Backend,
    caller: Principal,
    bulk_id: str,
    state: BulkState,
    question: SteerBulkQuestion,
) -> BulkAnswer:
    scope, by = caller.tenants.as_filter(), By(caller.actor, question.reason)
    known = await services.bulks.get(bulk_id, scope)
    caller.require_any(OPERATION_PERMISSIONS[OperationKind(known.order.kind)])
    rights = engine_rights(caller.permissions)
    return BulkAnswer.of(await services.bulks.steer(bulk_id, state, by, scope, rights))


def _order(caller: Principal, question: BulkQuestion) -> BulkOrder:
    """Return the order with what its bearer may do: each saga asks for its permission anew."""
    caller.require_any(OPERATION_PERMISSIONS[OperationKind(question.kind)])
    asked = question.filter
    wanted = BulkFilter(
        tenants=SagaFilter(asked.tenant, tenants=caller.tenants.as_filter()).owners,
        workflow=asked.workflow,
        statuses=asked.statuses,
        key_prefix=asked.key_prefix,
        control=asked.control,
        since=moment(asked.since),
        until=moment(asked.until),
        participant=asked.participant,
        step=asked.step,
    )
    return BulkOrder(
        kind=question.kind,
        wanted=wanted,
        most=question.most,
        actor=caller.actor,
        reason=question.reason,
        operation_id=question.operation_id,
        permitted=engine_rights(caller.permissions),
    )
