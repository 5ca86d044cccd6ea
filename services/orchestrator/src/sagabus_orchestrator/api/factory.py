"""The web app: routes, limits, problems, and the document that describes them."""

from __future__ import annotations

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from sagabus_core.errors import SagabusError
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.limits import BODY_WITHIN_S, BodyLimit, HeadRules, Holder
from sagabus_orchestrator.api.openapi import SUMMARY, VERSION, describe
from sagabus_orchestrator.api.problems import problem_of
from sagabus_orchestrator.api.routes import ROUTERS

__all__ = ["create_app"]


def create_app(backend: Backend | None = None) -> FastAPI:
    """Return the app; without a backend it can only describe itself.

    Open to everybody is /openapi.json alone, which is published anyway; health answers elsewhere.
    """
    app = FastAPI(
        title="sagabus orchestrator",
        version=VERSION,
        summary=SUMMARY,
        docs_url=None,
        redoc_url=None,
        separate_input_output_schemas=False,
    )
    for router in ROUTERS:
        app.include_router(router)
    for kind in (SagabusError, RequestValidationError, HTTPException, Exception):
        app.add_exception_handler(kind, problem_of)
    app.add_middleware(BodyLimit, within_s=BODY_WITHIN_S)
    app.add_middleware(HeadRules)
    app.add_middleware(Holder)
    app.state.backend = backend
    describe(app, ROUTERS)
    return app
