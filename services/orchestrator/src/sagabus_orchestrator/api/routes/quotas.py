"""Quotas of running sagas."""

from __future__ import annotations

from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.fields import Key
from sagabus_orchestrator.api.models.letters import QuotaAnswer, QuotaQuestion
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.errors import NotFound

__all__ = ["router"]

router = new_router("quotas")

PLACE = "/quotas/{tenant}"


@router.get(PLACE, response_model=QuotaAnswer, responses=refusals(404))
@permitted(Permission.QUOTA_READ)
async def get_quota(tenant: Key, caller: Caller, services: Services) -> QuotaAnswer:
    """Return how many sagas of a tenant may run, and how many do."""
    _require_seen(caller, tenant)
    found = await services.tenants.quota(tenant)
    if found is None:
        return QuotaAnswer(tenant=tenant, max_active=None, active=None)
    return QuotaAnswer(tenant=tenant, max_active=found.max_active, active=found.active)


@router.put(PLACE, response_model=QuotaAnswer, responses=refusals(404))
@permitted(Permission.QUOTA_SET)
async def set_quota(
    tenant: Key, question: QuotaQuestion, caller: Caller, services: Services
) -> QuotaAnswer:
    """Limit how many sagas of a tenant may run; a limit below what runs ends nothing."""
    _require_seen(caller, tenant)
    by = By(caller.actor, question.reason)
    quota = await services.tenants.set_quota(tenant, question.max_active, by)
    return QuotaAnswer(tenant=tenant, max_active=quota.max_active, active=quota.active)


@router.delete(PLACE, response_model=QuotaAnswer, responses=refusals(404))
@permitted(Permission.QUOTA_SET)
async def remove_quota(tenant: Key, caller: Caller, services: Services) -> QuotaAnswer:
    """Let a tenant start as many sagas as it likes."""
    _require_seen(caller, tenant)
    await services.tenants.remove_quota(tenant, By(caller.actor))
    return QuotaAnswer(tenant=tenant, max_active=None, active=None)


def _require_seen(caller: Principal, tenant: str) -> None:
    if not caller.sees(tenant):
        raise NotFound("not_found", f"there is no tenant {tenant!r}")
