"""Holds: keep commands of a workflow, or to a participant, back, and let them go again."""

from __future__ import annotations

from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.fields import Name
from sagabus_orchestrator.api.models.holds import HoldAnswer, HoldList, HoldQuestion, HoldTarget
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.holds import ALL
from sagabus_orchestrator.switchboard import HoldState

__all__ = ["router"]

router = new_router("holds")

PLACE = "/holds/{target}/{name}"


@router.get("/holds", response_model=HoldList, responses=refusals())
@permitted(Permission.PAUSE_READ)
async def list_holds(caller: Caller, services: Services) -> HoldList:
    """List the holds that concern the caller's tenants: theirs, and those of all tenants."""
    found = await services.switchboard.list()
    seen = [hold for hold in found if hold.tenant == ALL or caller.sees(hold.tenant)]
    return HoldList(holds=[_answer(caller, hold) for hold in seen])


@router.put(PLACE, response_model=HoldAnswer, responses=refusals(404))
@permitted(Permission.PAUSE_SET)
async def set_hold(
    target: HoldTarget, name: Name, question: HoldQuestion, caller: Caller, services: Services
) -> HoldAnswer:
    """Set a hold; the same again changes nothing. After the answer nothing held is issued.

    Sagas that would issue such a command are paused, starts that would are refused
    (`issuing_held`). Commands that were issued before are not called back.
    """
    if question.tenant is None:
        caller.require_all_tenants()
    else:
        caller.require_tenant(question.tenant)
    by = By(caller.actor, question.reason)
    hold = await services.switchboard.set(target, name, by, question.tenant or ALL)
    return _answer(caller, hold)


@router.post(f"{PLACE}/release", status_code=204, responses=refusals(404))
@permitted(Permission.PAUSE_SET)
async def release_hold(
    target: HoldTarget, name: Name, question: HoldQuestion, caller: Caller, services: Services
) -> None:
    """Release a hold: the sagas that it paused go on one after another, each once.

    A hold that is not set, or was released before, is `not_found`.
    """
    if question.tenant is None:
        caller.require_all_tenants()
    elif not caller.sees(question.tenant):
        raise NotFound("not_found", f"no hold of {target} {name} is set")
    by = By(caller.actor, question.reason)
    await services.switchboard.release(target, name, by, question.tenant or ALL)


def _answer(caller: Principal, hold: HoldState) -> HoldAnswer:
    return HoldAnswer.of(hold, counted=caller.tenants.everyone or hold.tenant != ALL)
