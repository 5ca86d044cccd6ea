"""The HTTP API over the orchestrator's rig: real Postgres, requests through the whole app."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from fastapi import FastAPI
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from tests.integration.orchestrator.support import TOPICS, WINDOW, Rig, no_topics_missing

from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.config import ApiSettings
from sagabus_orchestrator.api.factory import create_app
from sagabus_orchestrator.api.feed import Feed
from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ROLES,
    Permission,
    Principal,
    Role,
    TenantScope,
    Unauthenticated,
)
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.shares import Shares
from sagabus_orchestrator.api.starting import Starter
from sagabus_orchestrator.api.waiting import StatusWatch
from sagabus_orchestrator.audit import FactPages, Trail
from sagabus_orchestrator.bulk import Bulks
from sagabus_orchestrator.queries import SagaReader
from sagabus_orchestrator.readers import Readers
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.why import Gatherer
from sagabus_orchestrator.why.kafka import NoBus
from sagabus_runtime import Pulse

PEOPLE: dict[str, Principal] = {
    "admin": Principal("key:admin", ROLES[Role.ADMIN], ALL_TENANTS),
    "acme": Principal("key:acme", ROLES[Role.ADMIN], TenantScope(frozenset({"acme"}))),
    "globex": Principal("key:globex", ROLES[Role.ADMIN], TenantScope(frozenset({"globex"}))),
    "viewer": Principal("key:viewer", ROLES[Role.VIEWER], ALL_TENANTS),
    "starter": Principal("key:starter", ROLES[Role.STARTER], ALL_TENANTS),
    "bulk-canceller": Principal(
        "key:canceller", frozenset({Permission.BULK_RUN, Permission.SAGA_CANCEL}), ALL_TENANTS
    ),
    "step-retrier": Principal(
        "key:retrier", frozenset({Permission.SAGA_RETRY_STEP, Permission.SAGA_READ}), ALL_TENANTS
    ),
}


class KnownPeople:
    """An `Authenticator` that knows a caller by name."""

    async def authenticate(self, authorization: str | None, api_key: str | None) -> Principal:
        if authorization is not None or api_key is None or api_key not in PEOPLE:
            raise Unauthenticated("credentials_missing", "send X-API-Key")
        return PEOPLE[api_key]


@dataclass
class Api:
    """The app with its loops running; requests come from `admin` unless they say otherwise."""

    rig: Rig
    app: FastAPI
    backend: Backend
    client: httpx.AsyncClient

    async def get(self, path: str, *, who: str = "admin", **query: Any) -> httpx.Response:
        return await self.client.get(f"/v1{path}", params=query, headers={"x-api-key": who})

    async def post(
        self, path: str, body: object = None, *, who: str = "admin", **headers: str
    ) -> httpx.Response:
        sent = {"x-api-key": who, **{n.replace("_", "-"): v for n, v in headers.items()}}
        return await self.client.post(f"/v1{path}", json=body, headers=sent)

    async def start(
        self,
        key: str = "ORD-1",
        *,
        who: str = "admin",
        request_key: str | None = None,
        **changes: Any,
    ) -> httpx.Response:
        headers = {"idempotency_key": request_key} if request_key is not None else {}
        return await self.post("/sagas", start_body(key, **changes), who=who, **headers)

    async def operate(self, kind: str, key: str = "ORD-1", **body: Any) -> httpx.Response:
        who = body.pop("who", "admin")
        return await self.post(
            f"/sagas/{self.rig.saga(key)}/{kind}", {"reason": "because", **body}, who=who
        )


def start_body(key: str = "ORD-1", **changes: Any) -> dict[str, Any]:
    return {
        "tenant": "acme",
        "workflow": "order",
        "business_key": key,
        "payload": {
            "content_type": "application/json",
            "schema_id": "order.v1",
            "data": {"sku": "widget"},
        },
        **changes,
    }


def problem(response: httpx.Response) -> tuple[int, str]:
    """Return status and code of a problem that says what RFC 9457 and we promise."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    body = response.json()
    assert body["status"] == response.status_code
    assert body["type"] == f"urn:sagabus:error:{body['code']}"
    assert {"title", "detail", "retryable", "trace_id"} <= body.keys()
    return response.status_code, body["code"]


def backend_of(rig: Rig, stopping: asyncio.Event) -> Backend:
    metrics = ApiMetrics(CollectorRegistry())
    settings = ApiSettings(kafka="127.0.0.1:9", postgres=SecretStr("postgresql://nowhere/none"))
    return Backend(
        database=rig.database,
        watcher=rig.watcher,
        authenticator=KnownPeople(),
        trail=Trail(rig.database),
        metrics=metrics,
        shares=Shares.of(settings, metrics),
        starter=Starter(rig.database, rig.handler, TOPICS, WINDOW),
        reader=SagaReader(rig.database),
        watch=StatusWatch(rig.database),
        feed=Feed(rig.database, alive_s=0.2),
        operations=rig.operations,
        bulks=Bulks(rig.database, rig.watcher),
        switchboard=Switchboard(rig.database),
        registry=rig.registry,
        tenants=rig.tenants,
        pages=FactPages(rig.database),
        letters=lambda: DeadLetters(rig.database, TOPICS, rig.watcher, WINDOW),
        gatherer=lambda: Gatherer(
            rig.database, rig.watcher.current, Readers(TOPICS), NoBus("none in this test")
        ),
        missing_topics=no_topics_missing,
        stopping=stopping,
    )


@asynccontextmanager
async def open_api(rig: Rig) -> AsyncIterator[Api]:
    """Lend the app on a rig, with the loops of its service."""
    stopping = asyncio.Event()
    backend = backend_of(rig, stopping)
    app = create_app(backend)
    loops = [
        asyncio.create_task(run(Pulse("test", 60_000, stopping)))
        for run in (backend.starter.run, backend.watch.run, backend.feed.run)
    ]
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield Api(rig, app, backend, client)
    stopping.set()
    await asyncio.gather(*loops)
