"""The operations of the API, by what they are about."""

from fastapi import APIRouter

from sagabus_orchestrator.api.routes import (
    bulk,
    definitions,
    events,
    evidence,
    holds,
    keys,
    letters,
    operations,
    quotas,
    sagas,
    starts,
)

__all__ = ["ROUTERS"]

ROUTERS: tuple[APIRouter, ...] = (
    starts.router,
    sagas.router,
    operations.router,
    bulk.router,
    holds.router,
    evidence.router,
    events.router,
    definitions.router,
    letters.router,
    quotas.router,
    keys.router,
)
