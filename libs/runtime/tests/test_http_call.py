"""Requests of this process in traces: a span per attempt, the header behind it."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from sagabus_runtime import Tracing, parse_traceparent
from sagabus_runtime.http_call import http_call
from sagabus_runtime.telemetry import running

PLACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """Let this process trace."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", provider)
    yield exporter
    provider.shutdown()


def test_an_attempt_is_a_span_that_names_template_server_and_status(
    spans: InMemorySpanExporter,
) -> None:
    address = "https://user:secret@sagas.example/base?token=secret"
    with http_call("POST", address, "/v1/sagas/{saga_id}/pause", resent=2) as call:
        call.answered(409)
    (span,) = spans.get_finished_spans()
    assert (span.name, span.kind) == ("POST /v1/sagas/{saga_id}/pause", SpanKind.CLIENT)
    assert span.attributes == {
        "http.request.method": "POST",
        "url.template": "/v1/sagas/{saga_id}/pause",
        "server.address": "sagas.example",
        "server.port": 443,
        "http.request.resend_count": 2,
        "http.response.status_code": 409,
        "error.type": "409",
    }
    assert span.status.status_code is StatusCode.ERROR
    sent = parse_traceparent(call.headers["traceparent"])
    assert span.context is not None
    assert sent is not None
    assert sent.span_id == f"{span.context.span_id:016x}"


def test_it_hangs_below_what_runs_or_where_it_is_told(spans: InMemorySpanExporter) -> None:
    begun = Tracing.of_host().tracer
    assert begun is not None
    with running(begun.start_span("checkout")), http_call("GET", "http://api") as call:
        call.answered(200)
    with http_call("GET", "http://api", parent=f"{PLACE}-01"):
        pass
    with http_call("GET", "http://api", parent=f"{PLACE}-00") as unsampled:
        pass
    inner, checkout, told = spans.get_finished_spans()
    assert inner.parent is not None
    assert checkout.context is not None
    assert inner.parent.span_id == checkout.context.span_id
    assert told.parent is not None
    assert f"{told.parent.span_id:016x}" == PLACE[36:]
    assert unsampled.headers == {"traceparent": f"{PLACE}-00"}


def test_a_process_that_does_not_trace_sends_what_it_was_given() -> None:
    with http_call("GET", "http://api") as bare, http_call("GET", "x", parent=PLACE) as given:
        bare.answered(200)
    assert (bare.headers, given.headers) == ({}, {"traceparent": PLACE})
