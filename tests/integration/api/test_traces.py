"""A request in traces and logs: below its caller, named by its route, and without what it holds."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased, Sampler
from tests.integration.orchestrator.support import Rig

from sagabus_orchestrator.api.server import HttpServer
from sagabus_runtime import Pulse, Tracing, logs

from .support import Api, open_api, problem, start_body

TRACE = "0af7651916cd43dd8448eb211c80319c"
SAMPLED, UNSAMPLED = (f"00-{TRACE}-b7ad6b7169203331-{flag}" for flag in ("01", "00"))
SECRETS = ("ORD-secret", "widget-secret", "r-secret", "key-secret", "token-secret", "ref-secret")


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


def tracing_to(spans: InMemorySpanExporter, root: Sampler) -> Tracing:
    provider = TracerProvider(sampler=ParentBased(root))
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider)


@pytest.fixture
async def traced(
    rig: Rig, spans: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Api]:
    """Lend an API that traces, in a process where libraries may trace as well."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    async with open_api(rig, tracing_to(spans, ALWAYS_ON)) as api:
        yield api


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure("sagabus-api", "info", "json", stream)
    yield stream
    structlog.reset_defaults()


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


async def kept_place(rig: Rig, key: str = "ORD-1") -> str:
    async with rig.database.connection() as conn:
        query = "select traceparent from saga where business_key = $1"
        return str(await conn.fetchval(query, key))


async def test_without_a_callers_trace_the_problem_names_the_one_that_is_exported(
    traced: Api, spans: InMemorySpanExporter
) -> None:
    answer = await traced.get(f"/sagas/{traced.rig.saga('nobody')}")
    assert problem(answer) == (404, "not_found")
    (span,) = spans.get_finished_spans()
    assert (span.parent, span.name) == (None, "GET /v1/sagas/{saga_id}")
    assert answer.json()["trace_id"] == trace_of(span)


async def test_a_saga_goes_on_below_the_span_of_its_request(
    traced: Api, spans: InMemorySpanExporter
) -> None:
    assert (await traced.post("/sagas", start_body(), traceparent=SAMPLED)).status_code == 201
    (span,) = spans.get_finished_spans()
    assert span.context is not None
    assert span.parent is not None
    assert (trace_of(span), f"{span.parent.span_id:016x}") == (TRACE, SAMPLED[36:52])
    assert await kept_place(traced.rig) == f"00-{TRACE}-{span.context.span_id:016x}-01"
    assert span.attributes == {
        "http.request.method": "POST",
        "http.route": "/v1/sagas",
        "http.response.status_code": 201,
        "saga_id": traced.rig.saga("ORD-1"),
    }


async def test_what_its_caller_does_not_sample_goes_on_as_it_came(
    traced: Api, spans: InMemorySpanExporter
) -> None:
    await traced.post("/sagas", start_body(), traceparent=UNSAMPLED)
    lost = await traced.post("/sagas", start_body(workflow="none"), traceparent=UNSAMPLED)
    assert await kept_place(traced.rig) == UNSAMPLED
    assert lost.json()["trace_id"] == TRACE
    assert spans.get_finished_spans() == ()


@pytest.mark.parametrize("on", [True, False], ids=["sampled never", "tracing off"])
async def test_without_spans_logs_and_problems_share_a_trace_id(
    rig: Rig, spans: InMemorySpanExporter, said: io.StringIO, on: bool
) -> None:
    tracing = tracing_to(spans, ALWAYS_OFF) if on else Tracing()
    async with open_api(rig, tracing) as api:
        await api.start()
        lost = await api.start("ORD-2", workflow="none")
    started, refused = lines(said)
    assert (await kept_place(rig)).split("-")[1::2] == [started["trace_id"], "00"]
    assert lost.json()["trace_id"] == refused["trace_id"]
    assert spans.get_finished_spans() == ()


async def test_of_what_changes_or_is_refused_one_line_tells_who_what_and_how_it_ended(
    traced: Api, spans: InMemorySpanExporter, said: io.StringIO
) -> None:
    named = {"x_request_id": "r:1", "traceparent": SAMPLED}
    answer = await traced.post("/sagas", start_body(), **named)
    assert answer.headers["x-request-id"] == "r:1"
    await traced.operate("pause")
    await traced.get(f"/sagas/{traced.rig.saga('ORD-1')}")
    odd = await traced.post("/sagas/nonsense/pause", {}, who="viewer", x_request_id="two words")
    started, paused, refused = lines(said)
    saga_id = traced.rig.saga("ORD-1")
    assert started.pop("took_ms") >= 0
    assert started.pop("timestamp")
    assert started == {
        "event": "api.answered",
        "level": "info",
        "service": "sagabus-api",
        "request_id": "r:1",
        "trace_id": TRACE,
        "actor": "key:admin",
        "saga_id": saga_id,
        "method": "POST",
        "route": "/v1/sagas",
        "status": 201,
    }
    assert (paused["saga_id"], paused["route"]) == (saga_id, "/v1/sagas/{saga_id}/pause")
    assert paused["trace_id"] == trace_of(spans.get_finished_spans()[1])
    assert (refused["status"], refused["code"]) == (403, "permission_denied")
    assert refused["request_id"] == odd.headers["x-request-id"] != "two words"
    assert "saga_id" not in refused


async def test_requests_of_one_connection_know_nothing_of_each_other(
    traced: Api, spans: InMemorySpanExporter, said: io.StringIO
) -> None:
    server = HttpServer(traced.app, "127.0.0.1", 0, traced.backend.metrics)
    stopping = asyncio.Event()
    server.listen()
    serving = asyncio.create_task(server.run(Pulse("http", 60_000, stopping)))
    limits = httpx.Limits(max_connections=1)
    address = f"http://127.0.0.1:{server.port}"
    async with httpx.AsyncClient(base_url=address, limits=limits) as client:
        for headers in ({"x-api-key": "admin"}, {"traceparent": SAMPLED}, {}):
            await client.post("/v1/sagas", json=start_body(), headers=headers)
    stopping.set()
    await serving
    first, second, third = spans.get_finished_spans()
    assert second.parent is not None
    assert f"{second.parent.span_id:016x}" == SAMPLED[36:52]
    assert (first.parent, third.parent) == (None, None)
    started, *refused = [each for each in lines(said) if each["event"] == "api.answered"]
    assert {"actor", "saga_id", "service"} <= started.keys()
    assert all(each.keys() & {"actor", "saga_id", "service"} == {"service"} for each in refused)


async def test_no_span_or_line_holds_a_credential_a_key_a_cursor_or_a_payload(
    traced: Api,
    spans: InMemorySpanExporter,
    said: io.StringIO,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def breaks(saga_id: str) -> None:
        raise LookupError(f"{saga_id}: no {SECRETS[1]}")

    body = start_body(SECRETS[0])
    body["payload"]["data"] = {"sku": SECRETS[1]}
    await traced.post("/sagas", body, idempotency_key=SECRETS[2])
    await traced.post("/sagas", body, who=SECRETS[3])
    await traced.client.get("/v1/sagas", headers={"authorization": f"Bearer {SECRETS[4]}"})
    await traced.get("/sagas", cursor=SECRETS[5], key_prefix=SECRETS[0])
    await traced.post(f"/sagas/{SECRETS[0]}/pause", {"reason": SECRETS[1]})
    await traced.client.get(f"/v2/{SECRETS[0]}")
    monkeypatch.setattr(traced.backend.reader, "head", breaks)
    assert (await traced.get(f"/sagas/{traced.rig.saga('ORD-1')}")).status_code == 500
    exported = [span.to_json() for span in spans.get_finished_spans()]
    assert len(exported) == 7
    written = [line for line in said.getvalue().splitlines() if "api.answered" in line]
    assert len(written) == 7
    for text in (*exported, *written):
        assert not [secret for secret in SECRETS if secret in text]
