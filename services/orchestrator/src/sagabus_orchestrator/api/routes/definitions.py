"""Workflow definitions: what is published, and steering it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Annotated, Any, Final

from fastapi import Query, Request
from fastapi.responses import PlainTextResponse

from sagabus_messages import parse_strict
from sagabus_messages.strict_json import load
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.definitions import (
    DefinitionAnswer,
    DefinitionDocument,
    DefinitionList,
    SteerQuestion,
    definition_fields,
)
from sagabus_orchestrator.api.models.fields import Key, Name, Version
from sagabus_orchestrator.api.routing import (
    Caller,
    Services,
    new_router,
    permitted,
    require_json,
)
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.catalog import GLOBAL, DefinitionRef
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.flowcharts import flowchart
from sagabus_orchestrator.registry import Published

__all__ = ["router"]

router = new_router("definitions")

PLACE: Final = "/definitions/{workflow}/{version}"
Owner = Annotated[Key | None, Query(description="Its owner; none: the one for all tenants.")]
_DOCUMENT: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "description": "A workflow definition: contracts/schemas",
                }
            }
        },
    }
}


@router.get("/definitions", response_model=DefinitionList, responses=refusals())
@permitted(Permission.DEFINITION_READ)
async def list_definitions(caller: Caller, services: Services) -> DefinitionList:
    """List what is published for all tenants and for the caller's."""
    listed = await services.registry.list()
    seen = [each for each in listed if _sees(caller, each.ref)]
    return DefinitionList(definitions=list(map(DefinitionAnswer.of, seen)))


@router.get(PLACE, response_model=DefinitionDocument, responses=refusals(404))
@permitted(Permission.DEFINITION_READ)
async def get_definition(
    workflow: Name, version: Version, caller: Caller, services: Services, tenant: Owner = None
) -> DefinitionDocument:
    """Return a published definition."""
    found = await services.registry.get(_ref(caller, tenant, workflow, version))
    return DefinitionDocument(**definition_fields(found), document=load(found.document))


@router.get(
    f"{PLACE}/graph",
    response_class=PlainTextResponse,
    responses={200: {"description": "A Mermaid flowchart"}, **refusals(404)},
)
@permitted(Permission.DEFINITION_READ)
async def draw_definition(
    workflow: Name, version: Version, caller: Caller, services: Services, tenant: Owner = None
) -> PlainTextResponse:
    """Draw the flow of a definition as a Mermaid flowchart."""
    found = await services.registry.get(_ref(caller, tenant, workflow, version))
    return PlainTextResponse(flowchart(services.registry.parse(found.document)))


@router.post(
    "/definitions",
    status_code=201,
    response_model=DefinitionAnswer,
    responses=refusals(409, 413, 422),
    openapi_extra=_DOCUMENT,
)
@permitted(Permission.DEFINITION_PUBLISH)
async def publish_definition(
    request: Request, caller: Caller, services: Services
) -> DefinitionAnswer:
    """Publish a definition as a draft; the same content again changes nothing.

    `errors` of a refusal (`invalid_definition`) lists every broken rule at once.
    """
    await require_json(request)
    raw = await request.body()
    document = parse_strict(raw)
    owner = document.get("tenant") if isinstance(document, dict) else None
    if isinstance(owner, str):
        caller.require_tenant(owner)
    else:
        caller.require_all_tenants()
    return DefinitionAnswer.of(await services.registry.publish(raw, By(caller.actor)))


@router.post(
    f"{PLACE}/activate", response_model=DefinitionAnswer, responses=refusals(404, 409, 422)
)
@permitted(Permission.DEFINITION_ACTIVATE)
async def activate_definition(
    workflow: Name, version: Version, question: SteerQuestion, caller: Caller, services: Services
) -> DefinitionAnswer:
    """Let starts use a version; refused until the topics of its participants exist."""
    ref = _own(caller, question, workflow, version)
    by = By(caller.actor, question.reason)
    return await _steered(services.registry.activate(ref, services.missing_topics, by), services)


@router.post(f"{PLACE}/deprecate", response_model=DefinitionAnswer, responses=refusals(404, 409))
@permitted(Permission.DEFINITION_DEPRECATE)
async def deprecate_definition(
    workflow: Name, version: Version, question: SteerQuestion, caller: Caller, services: Services
) -> DefinitionAnswer:
    """Let only those starts use a version that name it."""
    ref = _own(caller, question, workflow, version)
    by = By(caller.actor, question.reason)
    return await _steered(services.registry.deprecate(ref, by), services)


@router.post(f"{PLACE}/retire", response_model=DefinitionAnswer, responses=refusals(404, 409))
@permitted(Permission.DEFINITION_RETIRE)
async def retire_definition(
    workflow: Name, version: Version, question: SteerQuestion, caller: Caller, services: Services
) -> DefinitionAnswer:
    """Let no start use a version; refused while instances run on it."""
    ref = _own(caller, question, workflow, version)
    by = By(caller.actor, question.reason)
    return await _steered(services.registry.retire(ref, by), services)


async def _steered(change: Awaitable[Published], services: Backend) -> DefinitionAnswer:
    published = await change
    await services.watcher.refresh()  # the caller's next request finds it here
    return DefinitionAnswer.of(published)


def _sees(caller: Principal, ref: DefinitionRef) -> bool:
    return ref.scope == GLOBAL or caller.sees(ref.scope)


def _ref(caller: Principal, tenant: str | None, workflow: str, version: int) -> DefinitionRef:
    ref = DefinitionRef(tenant or GLOBAL, workflow, version)
    if not _sees(caller, ref):
        raise NotFound("not_found", f"no definition {workflow} {version} is published")
    return ref


def _own(caller: Principal, question: SteerQuestion, workflow: str, version: int) -> DefinitionRef:
    """Return what the caller may change: what is for all tenants concerns all of them."""
    if question.tenant is None:
        caller.require_all_tenants()
    return _ref(caller, question.tenant, workflow, version)
