"""Limits of tenants: running sagas, starts and operations in a window."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.fields import Key
from sagabus_orchestrator.api.models.quotas import (
    LimitAnswer,
    Limited,
    LimitQuestion,
    QuotaAnswer,
    QuotaList,
    QuotaListQuestion,
    RemovalQuestion,
)
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.errors import NotFound

__all__ = ["router"]

router = new_router("quotas")

PLACE = "/quotas/{tenant}"


@router.get("/quotas", response_model=QuotaList, responses=refusals())
@permitted(Permission.QUOTA_READ)
async def list_quotas(
    caller: Caller, services: Services, asked: Annotated[QuotaListQuestion, Query()]
) -> QuotaList:
    """List the limits of the caller's tenants with their use; who has none is not limited."""
    scope = caller.tenants.as_filter()
    found = await services.tenants.limits(scope, asked.cursor or "", asked.limit + 1)
    return QuotaList.of(found, asked.limit)


@router.get(PLACE, response_model=QuotaAnswer, responses=refusals(404))
@permitted(Permission.QUOTA_READ)
async def get_quota(tenant: Key, caller: Caller, services: Services) -> QuotaAnswer:
    """Return what a tenant may do, and what it has used."""
    _require_seen(caller, tenant)
    return await _answer(services, tenant)


@router.put(f"{PLACE}/{{action}}", response_model=QuotaAnswer, responses=refusals())
@permitted(Permission.QUOTA_SET)
async def set_quota(
    tenant: Key, action: Limited, question: LimitQuestion, caller: Caller, services: Services
) -> QuotaAnswer:
    """Limit what a tenant may do; a limit below what runs ends nothing.

    For callers of all tenants: whoever is limited does not lift the limit.
    """
    caller.require_all_tenants()
    by = By(caller.actor, question.reason)
    if action == "running":
        await services.tenants.set_quota(tenant, question.most, by)
    else:
        await services.tenants.set_rate(tenant, action, question.most, question.window_ms, by)
    return await _answer(services, tenant)


@router.delete(f"{PLACE}/{{action}}", response_model=QuotaAnswer, responses=refusals())
@permitted(Permission.QUOTA_SET)
async def remove_quota(
    tenant: Key,
    action: Limited,
    caller: Caller,
    services: Services,
    asked: Annotated[RemovalQuestion, Query()],
) -> QuotaAnswer:
    """Take a limit away; one that is not there is no error. For callers of all tenants."""
    caller.require_all_tenants()
    by = By(caller.actor, asked.reason)
    if action == "running":
        await services.tenants.remove_quota(tenant, by)
    else:
        await services.tenants.remove_rate(tenant, action, by)
    return await _answer(services, tenant)


async def _answer(services: Backend, tenant: str) -> QuotaAnswer:
    limits = await services.tenants.limits([tenant])
    return QuotaAnswer(tenant=tenant, limits=list(map(LimitAnswer.of, limits)))


def _require_seen(caller: Principal, tenant: str) -> None:
    if not caller.sees(tenant):
        raise NotFound("not_found", f"there is no tenant {tenant!r}")
