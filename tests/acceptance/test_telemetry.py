"""What operators see from outside: one trace per saga, and the metrics of every service."""

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from prometheus_client.parser import text_string_to_metric_families

from sagabus_bus import Tail
from sagabus_client import HttpClient, SagabusClient, StartCommand
from sagabus_messages import Meta, decode, json_payload
from sagabus_runtime.telemetry import traceparent_here
from sagabus_testkit import eventually
from sagabus_testkit.orders import make_orders

from .collector import Told
from .support import Shop, order_payload, patient_order

ROW = re.compile(r"^\| `(sagabus_\w+)` \| \w+ \| ([^|]*) \|", re.MULTILINE)
LABEL = re.compile(r"`(\w+)`")
UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}")
WANTED = {
    "success": "COMPLETED",
    "no-answer": "COMPENSATED",  # a wake-up and a cancel barrier
    "charge-unknown": "COMPLETED",  # a resolution
}


@pytest.fixture
def traced(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    """Let this process trace as a client would."""
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    exporter = OTLPSpanExporter(f"{shop.collector.endpoint}/v1/traces")
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield provider
    provider.shutdown()


def roots(spans: list[Told]) -> list[str]:
    """Return the names of the spans whose parent is not (yet) there."""
    ids = {span.id for span in spans}
    return [span.name for span in spans if span.parent not in ids]


def is_one_tree(spans: list[Told], status: str) -> bool:
    """Say whether the end is told and every parent known: each service exports in its own time."""
    ended = any(span.attributes.get("status") == status for span in spans)
    return ended and roots(spans) == ["checkout"]


async def last_words(tail: Tail, shop: Shop, sagas: set[str]) -> list[Meta]:
    """Read lifecycle events until each of the sagas has told its end."""
    heard: list[Meta] = []
    silent = set(sagas)
    async with asyncio.timeout(30):
        while silent:
            for event in (decode(r, shop.system.topics) for r in await tail.poll()):
                heard.append(event.meta)
                if getattr(event.body, "status", None) in WANTED.values():
                    silent.discard(event.meta.saga_id)
    return heard


async def test_a_saga_is_one_trace_from_its_client_to_its_last_event(
    shop: Shop, traced: TracerProvider
) -> None:
    orders = [o for o in make_orders(12, prefix="TRACE") if o.scenario.name in WANTED]
    tracer, places = traced.get_tracer("test"), {}
    system = shop.system
    async with (
        Tail(system.connection, [system.topics.lifecycle]) as tail,
        SagabusClient(system.connection, system.topics, name="test") as client,
    ):
        handles = {}
        for order in orders:
            with tracer.start_as_current_span("checkout") as root:
                handles[order.scenario.name] = await client.start(order.command)
                places[order.scenario.name] = f"{root.get_span_context().trace_id:032x}"
        for name, handle in handles.items():
            outcome = await client.wait(handle, timeout_s=90)
            assert outcome.status == WANTED[name]
        heard = await last_words(tail, shop, {handle.saga_id for handle in handles.values()})

    for name, trace in places.items():
        await eventually(
            lambda: is_one_tree(shop.collector.of(trace), WANTED[name]),  # noqa: B023
            within=20,
            what=f"{name} is one tree",
        )
        spans = shop.collector.of(trace)
        ids = {span.id for span in spans}
        assert len(ids) == len(spans)
        assert {s.name for s in spans} >= {"saga.start", "saga.transition", "participant.handle"}
        assert {s.service for s in spans} >= {"shop", "sagabus-orchestrator", "inventory"}
        told = [meta.traceparent for meta in heard if meta.saga_id == handles[name].saga_id]
        assert {text.split("-")[1] for text in told if text} == {trace}
        assert {text.split("-")[2] for text in told if text} <= ids
    waited = shop.collector.of(places["no-answer"])
    assert any(s.service == "sagabus-timer" for s in waited)


def way_to(span: Told, spans: list[Told]) -> list[tuple[str, str]]:
    """Return service and name of a span and of all above it, the root first."""
    by_id = {each.id: each for each in spans}
    way = [span]
    while way[0].parent in by_id:
        way.insert(0, by_id[way[0].parent])
    return [(each.service, each.name) for each in way]


async def test_over_http_a_saga_is_one_trace_and_links_who_steered_it(
    shop: Shop, traced: TracerProvider, tmp_path: Path
) -> None:
    patient_order(shop, tmp_path)
    file = tmp_path / "key"
    grant = ("--grant", "admin", "--all-tenants", "--file", str(file))
    await asyncio.to_thread(shop.sagabus, "keys", "create", "traces", *grant)
    key, card = file.read_text().strip(), "visa-secret"
    payload = json_payload(order_payload(card=card), "order.v1")
    command = StartCommand("default", "patient-order", "HTTP-secret", payload)
    tracer = traced.get_tracer("test")
    async with (
        HttpClient(shop.system.api_url, api_key=key) as client,
        httpx.AsyncClient(base_url=shop.system.api_url, headers={"x-api-key": key}) as http,
    ):
        with tracer.start_as_current_span("checkout") as root:
            handle = await client.start(command)
        traces = [root.get_span_context().trace_id]
        for path, body in {
            f"/v1/sagas/{handle.saga_id}/pause": {"reason": "to look"},
            f"/v1/sagas/{handle.saga_id}/resume": {"reason": "seen"},
            "/v1/bulk-operations": {
                "kind": "cancel",
                "most": 9,
                "reason": "recall",
                "operation_id": "recall",
                "filter": {"workflow": "patient-order", "key_prefix": "HTTP-"},
            },
        }.items():
            with tracer.start_as_current_span("operator") as root:
                headers = {"traceparent": traceparent_here() or ""}
                answer = await http.post(path, json=body, headers=headers)
            assert answer.is_success, answer.text
            traces.append(root.get_span_context().trace_id)
        assert (await client.wait(handle, timeout_s=60)).status == "COMPENSATED"

    saga, paused, resumed, recalled = (f"{trace:032x}" for trace in traces)
    await eventually(
        lambda: (
            is_one_tree(shop.collector.of(saga), "COMPENSATED")
            and "bulk.batch" in {span.name for span in shop.collector.of(recalled)}
        ),
        within=20,
        what="all is told",
    )
    spans = shop.collector.of(saga)
    (first,) = [s for s in spans if s.attributes.get("revision") == "1"]
    assert way_to(first, spans) == [
        ("shop", "checkout"),
        ("shop", "saga.start"),
        ("shop", "POST /v1/sagas"),
        ("sagabus-api", "POST /v1/sagas"),
        ("sagabus-api", "saga.transition"),
    ]
    operations = [span for span in spans if span.attributes.get("trigger") == "operation"]
    assert len(operations) == 3
    for trace, name in (
        (paused, "POST /v1/sagas/{saga_id}/pause"),
        (resumed, "POST /v1/sagas/{saga_id}/resume"),
        (recalled, "bulk.batch"),
    ):
        theirs = shop.collector.of(trace)
        (linked,) = [s for s in theirs for change in operations if s.id in change.links]
        assert linked.name == name
        assert [service for service, _ in way_to(linked, theirs)][:2] == ["shop", "sagabus-api"]
    for secret in (key, card, "HTTP-"):
        assert not shop.collector.holds(secret)


async def test_a_saga_that_nobody_traces_makes_no_spans(shop: Shop) -> None:
    order = next(o for o in make_orders(12, prefix="DARK") if o.scenario.name == "success")
    before = len(shop.collector.spans)
    async with SagabusClient(shop.system.connection, shop.system.topics, name="test") as client:
        handle = await client.start(order.command)
        await client.wait(handle, timeout_s=60)
    saga = f"select traceparent from saga where id = '{handle.saga_id}'"
    assert shop.ask("orchestrator", saga).endswith("-00"), "but logs have a trace id"
    assert not [
        s for s in shop.collector.spans[before:] if s.attributes.get("saga_id") == handle.saga_id
    ]


def test_every_service_tells_what_the_table_says_and_names_no_saga(shop: Shop) -> None:
    rows = ROW.findall((Path(__file__).parents[2] / "contracts/metrics.md").read_text())
    known = {name.removesuffix("_total"): set(LABEL.findall(labels)) for name, labels in rows}
    seen: set[str] = set()
    for name in shop.system.names:
        for family in text_string_to_metric_families(shop.metrics(name)):
            if not family.name.startswith("sagabus_"):
                continue
            seen.add(family.name)
            assert family.name in known
            for sample in family.samples:
                assert set(sample.labels) <= {*known[family.name], "le"}
                assert not [value for value in sample.labels.values() if UUID.search(value)]
            assert len(family.samples) < 2_000
    assert seen == set(known)
