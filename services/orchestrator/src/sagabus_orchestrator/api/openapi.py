"""The OpenAPI 3.1 document: what FastAPI derives, made true.

FastAPI documents 422 for bad parameters; here they are problems with 400. Permissions and ways to
say who asks are added.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute

from sagabus_orchestrator.api.problems import PROBLEM_TYPE, Problem
from sagabus_orchestrator.api.routing import permissions_of_route

__all__ = ["SUMMARY", "VERSION", "describe", "document_text"]

VERSION: Final = "1.0.0"
SUMMARY: Final = "Start, find, understand and repair sagas"
_DESCRIPTION: Final = """\
Every error is an RFC 9457 problem with a stable `code` (contracts/errors.md). Each operation names
the permissions that open it (`x-permissions`, any one of them); what belongs to another tenant
looks absent. Bodies are strict JSON of at most 256 KiB. Instants are RFC 3339 UTC to milliseconds.
"""
_SCHEMES: Final = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An OIDC access token"},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}


def describe(app: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Make the app serve the true document at /openapi.json."""
    routes = list(_routes(routers))

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app, routes)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way


def document_text(app: FastAPI) -> str:
    """Return the document as it is committed."""
    return json.dumps(app.openapi(), indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _document(app: FastAPI, routes: Sequence[APIRoute]) -> dict[str, Any]:
    document = get_openapi(
        title=app.title,
        version=app.version,
        summary=app.summary,
        description=_DESCRIPTION,
        routes=app.routes,
    )
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(problem.pop("$defs", {}))
    schemas["Problem"] = problem
    components["securitySchemes"] = _SCHEMES
    known = {(route.path, method): route for route in routes for method in route.methods or ()}
    for path, item in document["paths"].items():
        for method, operation in item.items():
            _complete(operation, known[(path, method.upper())])
    return document


def _routes(routers: Iterable[APIRouter]) -> Iterator[APIRoute]:
    for router in routers:
        yield from (route for route in router.routes if isinstance(route, APIRoute))


def _complete(operation: dict[str, Any], route: APIRoute) -> None:
    operation["operationId"] = route.name
    operation["security"] = [{name: []} for name in _SCHEMES]
    operation["x-permissions"] = sorted(permissions_of_route(route.endpoint))
    responses = operation["responses"]
    answer = responses.get("422", {}).get("content", {})
    if PROBLEM_TYPE not in answer:
        responses.pop("422", None)  # FastAPI's own, which never leaves this service
