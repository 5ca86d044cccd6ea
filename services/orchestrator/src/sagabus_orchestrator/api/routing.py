"""How a request enters: who asks and may they, then strict JSON; every error leaves as a problem.

A route without declared permissions cannot be added: nothing is open by accident.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from typing import Annotated, Any, TypeVar, get_origin

from fastapi import APIRouter, Depends, Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from sagabus_core.canonical import JsonValue
from sagabus_core.errors import SagabusError
from sagabus_messages import MessageError, parse_strict
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.errors import BadRequest
from sagabus_orchestrator.api.identity import (
    Permission,
    PermissionDenied,
    Principal,
    Unauthenticated,
)
from sagabus_orchestrator.api.problems import problem_of, unexpected
from sagabus_orchestrator.api.standing import Standing
from sagabus_orchestrator.api.trace import note_actor, note_saga
from sagabus_orchestrator.audit import Act, By

__all__ = [
    "Caller",
    "Held",
    "Lasting",
    "Services",
    "StrictRoute",
    "new_router",
    "permissions_of_route",
    "permitted",
]

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_DECLARED = "__sagabus_permissions__"
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def permitted(*permissions: Permission) -> Callable[[Endpoint], Endpoint]:
    """Declare that any one of these permissions opens the operation, before it looks at data."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _DECLARED, frozenset(permissions))
        return endpoint

    return declare


def permissions_of_route(endpoint: Callable[..., Any]) -> frozenset[Permission]:
    """Return what opens an operation; none were declared: empty."""
    found: frozenset[Permission] = getattr(endpoint, _DECLARED, frozenset())
    return found


class StrictRequest(Request):
    """A request whose body every reader understands alike, or that is refused."""

    async def json(self) -> JsonValue:
        """Return the body, strictly parsed."""
        try:
            return parse_strict(await self.body())
        except MessageError as error:
            # Anything but an HTTPException would become a nameless 400 on its way out.
            raise _Refused(error) from error


class _Refused(HTTPException):
    def __init__(self, error: SagabusError) -> None:
        super().__init__(400, error.code)
        self.error = error


class StrictRoute(APIRoute):
    """Authenticates, checks the permission, then lets FastAPI read and validate."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the handler of a request."""
        handle = super().get_route_handler()
        permissions = permissions_of_route(self.endpoint)
        if not permissions:
            raise BadRequest("no_permission_declared", f"{self.path} declares no permission")
        takes_body = self.body_field is not None
        repeatable = _repeatable(self.dependant)

        async def answer(strict: StrictRequest) -> Response:
            try:
                await _admit(strict, permissions)
                _require_once(strict, repeatable)
                if takes_body:
                    await require_json(strict)
                return await handle(strict)
            except _Refused as refused:
                return await problem_of(strict, refused.error)
            except ClientDisconnect:
                # Nobody hears it, and it is no defect of ours.
                cut = BadRequest("invalid_request", "the body ended before its end")
                return await problem_of(strict, cut)
            except (SagabusError, HTTPException) as error:
                await _note_refusal(strict, error)
                return await problem_of(strict, error)
            except Exception as error:  # noqa: BLE001  (the one place: a problem, never a trace)
                return await _answer(strict, error)

        async def enter(request: Request) -> Response:
            began_s = time.perf_counter()
            saga_id = request.path_params.get("saga_id", "")
            if _UUID.fullmatch(saga_id):
                note_saga(request, saga_id)
            response = await answer(StrictRequest(request.scope, request.receive))
            backend: Backend = request.app.state.backend
            took_s = time.perf_counter() - began_s
            backend.metrics.answered(self.name, response.status_code, took_s)
            return response

        return enter


def _repeatable(dependant: Dependant) -> frozenset[str]:
    """Return the parameters of a query that may stand several times."""
    asked = [param.field_info.annotation for param in dependant.query_params]
    return frozenset(
        name
        for model in asked
        if isinstance(model, type) and issubclass(model, BaseModel)
        for name, field in model.model_fields.items()
        if get_origin(field.annotation) is list
    )


def _require_once(request: Request, repeatable: frozenset[str]) -> None:
    """Refuse what one reader takes the first value of, and another one the last."""
    counted = Counter(name for name, _ in request.query_params.multi_items())
    for name, times in counted.items():
        if times > 1 and name not in repeatable:
            raise BadRequest("invalid_field", f"query/{name[:100]}: stands several times")


async def _answer(request: Request, error: Exception) -> Response:
    try:
        return await problem_of(request, error)
    except Exception as worse:  # noqa: BLE001
        return unexpected(request, worse)


async def _admit(request: Request, permissions: frozenset[Permission]) -> None:
    principal = await _authenticate(request)
    request.state.principal = principal
    note_actor(request, principal.actor)
    held: ExitStack = request.state.held
    held.enter_context(_backend(request).shares.requests.held_by(principal.actor))
    principal.require_any(permissions)


async def _authenticate(request: Request) -> Principal:
    backend: Backend = request.app.state.backend
    authorization, api_key = (_only(request, name) for name in ("authorization", "x-api-key"))
    return await backend.authenticator.authenticate(authorization, api_key)


def _only(request: Request, name: str) -> str | None:
    """Return a header that stands once: of two, a proxy may have judged the other."""
    found = request.headers.getlist(name)
    if len(found) > 1:
        raise Unauthenticated("credentials_ambiguous", f"send the header {name} once")
    return found[0] if found else None


async def _note_refusal(request: Request, error: Exception) -> None:
    """Let the audit tell who wanted to change what they may not; looking is no act."""
    if request.method == "GET" or not isinstance(error, PermissionDenied) or error.recorded:
        return
    kind = min(permissions_of_route(request.scope["endpoint"]))
    act = Act(kind=kind, by=By(_principal(request).actor), subject=request.url.path)
    await _backend(request).trail.refused(act, error)


async def require_json(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise BadRequest("unsupported_media_type", "send the body uncompressed")
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if await request.body() and media_type != "application/json":
        raise BadRequest("unsupported_media_type", "send the body as application/json")


def _principal(request: Request) -> Principal:
    found: Principal = request.state.principal
    return found


def _standing(request: Request) -> Standing:
    return Standing(_principal(request), lambda: _authenticate(request))


def _backend(request: Request) -> Backend:
    found: Backend = request.app.state.backend
    return found


Caller = Annotated[Principal, Depends(_principal)]
"""Who asks; holds a permission of the route already."""

Lasting = Annotated[Standing, Depends(_standing)]
"""Whether that caller still may, for an answer that goes on and on."""


def _held(request: Request) -> ExitStack:
    found: ExitStack = request.state.held
    return found


Held = Annotated[ExitStack, Depends(_held)]
"""What the request holds until its answer has been sent, or its caller has gone."""

Services = Annotated[Backend, Depends(_backend)]
"""What the routes work with."""


def new_router(tag: str) -> APIRouter:
    """Return a router whose routes are all guarded."""
    return APIRouter(prefix="/v1", tags=[tag], route_class=StrictRoute)
