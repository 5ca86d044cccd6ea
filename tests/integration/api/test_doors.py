"""What comes in: bodies, headers and paths that are refused, each with its code, never a trace."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry

from sagabus_orchestrator.api import routing
from sagabus_orchestrator.api.limits import Crowd
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_testkit import eventually

from .support import Api, problem, start_body

JSON = {"x-api-key": "admin", "content-type": "application/json"}


async def send(api: Api, content: bytes | str, **headers: str) -> httpx.Response:
    return await api.client.post("/v1/sagas", content=content, headers={**JSON, **headers})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("", "missing_field"),
        ("{", "invalid_json"),
        ("\ufeff{}", "invalid_json"),
        ('{"tenant": "a", "tenant": "b"}', "duplicate_key"),
        ('{"tenant": "\\u0000"}', "nul_character"),
        ('{"tenant": "\\ud800"}', "lone_surrogate"),
        ('{"definition_version": 9007199254740993}', "unsafe_integer"),
        ('{"definition_version": NaN}', "non_finite_number"),
        ("[" * 100 + "]" * 100, "json_too_deep"),
        ("[]", "invalid_field"),
        ("{}", "missing_field"),
        (json.dumps({**start_body(), "colour": "red"}), "invalid_field"),
        (json.dumps(start_body("")), "invalid_field"),
        (json.dumps(start_body("tab\there")), "invalid_field"),
        (json.dumps(start_body(workflow="No Name")), "invalid_field"),
        (json.dumps(start_body(deadline_at="soon")), "invalid_field"),
        (json.dumps(start_body(payload={"content_type": "application/json"})), "missing_field"),
    ],
    ids=str,
)
async def test_bad_bodies_are_named(api: Api, body: str, code: str) -> None:
    assert problem(await send(api, body)) == (400, code)
    assert await api.rig.count("saga") == 0


async def test_the_field_that_is_wrong_is_named(api: Api) -> None:
    refused = await api.start(deadline_at=7, definition_version="new")
    fields = {each["pointer"] for each in refused.json()["errors"]}
    assert fields == {"/deadline_at", "/definition_version"}


async def test_a_body_must_say_that_it_is_json(api: Api) -> None:
    refused = await send(api, json.dumps(start_body()), **{"content-type": "text/plain"})
    assert problem(refused) == (415, "unsupported_media_type")


async def test_a_large_body_is_refused_however_it_comes(api: Api) -> None:
    large = b'"' + b"x" * (256 * 1024) + b'"'
    assert problem(await send(api, large)) == (413, "body_too_large")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(300):
            yield b"x" * 1024

    chunked = await api.client.post("/v1/sagas", content=pieces(), headers=JSON)
    assert problem(chunked) == (413, "body_too_large")
    assert (await send(api, large[: 256 * 1024])).status_code == 400


async def test_nothing_is_open_but_the_document(api: Api) -> None:
    assert (await api.client.get("/openapi.json")).json() == api.app.openapi()
    assert problem(await api.client.get("/v1/sagas")) == (401, "credentials_missing")
    answered = await api.client.get("/v1/sagas")
    assert answered.headers["www-authenticate"] == 'Bearer realm="sagabus"'
    for path in ("/docs", "/redoc", "/metrics", "/"):
        assert problem(await api.client.get(path)) == (404, "route_unknown")
    assert problem(await api.client.delete("/v1/sagas")) == (405, "method_not_allowed")


async def test_who_asks_is_found_out_before_the_body_is_read(api: Api) -> None:
    refused = await api.client.post("/v1/sagas", content=b"{", headers={"x-api-key": "nobody"})
    assert problem(refused) == (401, "credentials_missing")


async def test_a_defect_says_nothing_but_its_trace(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise ZeroDivisionError("secret of the house")

    monkeypatch.setattr(api.backend.reader, "page", broken)
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
    refused = await api.client.get("/v1/sagas", headers={**JSON, "traceparent": trace})
    assert problem(refused) == (500, "internal_error")
    assert "secret" not in refused.text
    assert refused.json()["trace_id"] == "0af7651916cd43dd8448eb211c80319c"


async def test_an_outage_is_told_as_one(api: Api) -> None:
    await api.rig.database.close()
    refused = await api.get("/sagas")
    assert problem(refused) == (503, "store_closed")
    assert refused.json()["retryable"]
    assert refused.headers["retry-after"] == "1"
    await api.rig.database.open()


async def test_a_crowd_is_turned_away_and_what_is_inside_goes_on(api: Api) -> None:
    metrics = ApiMetrics(CollectorRegistry())
    transport = httpx.ASGITransport(Crowd(api.app, 1, metrics))
    await api.start()
    place = f"/v1/sagas/{api.rig.saga('ORD-1')}/outcome"
    async with httpx.AsyncClient(transport=transport, base_url="http://api", headers=JSON) as guest:
        waiting = asyncio.create_task(guest.get(place, params={"timeout_ms": 60_000}))
        await eventually(lambda: bool(api.backend.watch._waiters))
        refused = await guest.get(place)
        assert problem(refused) == (503, "api_busy")
        api.backend.stopping.set()
        assert (await waiting).status_code == 200
        assert (await guest.get(place)).status_code == 200


async def test_a_route_without_a_permission_cannot_be_added() -> None:
    router = routing.new_router("test")

    async def open_to_all() -> None:
        """Do nothing."""

    with pytest.raises(Exception, match="no_permission_declared"):
        router.get("/open")(open_to_all)
