"""W3C trace context in and out, and spans that keep to the parent's decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ALWAYS_ON, ParentBased
from opentelemetry.trace import StatusCode

from sagabus_runtime import (
    SettingsError,
    TraceParent,
    Tracing,
    format_traceparent,
    parse_traceparent,
)
from sagabus_runtime.telemetry import (
    current_traceparent,
    is_sampled,
    log_fields,
    new_traceparent,
)

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize(
    ("header", "sampled"),
    [
        (f"00-{TRACE}-{SPAN}-01", True),
        (f"00-{TRACE}-{SPAN}-00".encode(), False),
        (f"00-{TRACE}-{SPAN}-03", True),
        (f"cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like", True),
    ],
)
def test_valid_headers(header: bytes | str, sampled: bool) -> None:
    assert parse_traceparent(header) == TraceParent(TRACE, SPAN, sampled)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        b"\xff\xfe",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01-more",
        f"cc-{TRACE}-{SPAN}-01more",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-1",
        f" 00-{TRACE}-{SPAN}-01",
    ],
)
def test_a_malformed_header_is_no_context(header: bytes | str | None) -> None:
    assert parse_traceparent(header) is None


@given(st.binary(max_size=80))
def test_no_bytes_make_parsing_fail(header: bytes) -> None:
    parsed = parse_traceparent(header)
    assert parsed is None or parse_traceparent(format_traceparent(parsed)) == parsed


def test_a_new_trace_is_valid_and_fresh() -> None:
    one, other = new_traceparent(sampled=True), new_traceparent()
    assert parse_traceparent(format_traceparent(one)) == one
    assert one.trace_id != other.trace_id


SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"
OTHER = f"00-{'ab' * 16}-{'cd' * 8}-01"


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Tracing:
    provider = TracerProvider(sampler=ParentBased(ALWAYS_ON))
    provider.add_span_processor(SimpleSpanProcessor(spans))
    return Tracing(provider)


def test_a_span_begins_below_its_parent_and_is_told_once_it_ends(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    here, span = tracing.begin("step", SAMPLED, {"saga_id": "s"})
    assert spans.get_finished_spans() == (), "a rollback would leave nothing behind"
    assert span is not None
    span.end()
    (told,) = spans.get_finished_spans()
    assert told.context is not None
    assert told.parent is not None
    assert here == f"00-{TRACE}-{told.context.span_id:016x}-01"
    assert f"{told.parent.span_id:016x}" == SPAN
    assert told.links == ()


@pytest.mark.parametrize("parent", [UNSAMPLED, "00-0-0-00"])
def test_a_trace_that_is_not_sampled_goes_on_as_it_came(tracing: Tracing, parent: str) -> None:
    assert tracing.begin("step", parent) == (parent, None)


def test_without_an_exporter_a_trace_goes_on_as_it_came_and_is_begun_for_logs() -> None:
    off = Tracing.start("test", {})
    assert not off.enabled
    assert off.begin("step", SAMPLED) == (SAMPLED, None)
    begun, span = off.begin("step", None)
    assert span is None
    assert parse_traceparent(begun) is not None
    assert not is_sampled(begun)


def test_a_trace_begins_where_there_is_none_and_the_sampler_decides(tracing: Tracing) -> None:
    here, span = tracing.begin("root", None)
    assert span is not None
    assert is_sampled(here)
    never = Tracing(TracerProvider(sampler=ParentBased(ALWAYS_OFF)))
    here, span = never.begin("root", None)
    assert span is None
    assert parse_traceparent(here) is not None
    assert not is_sampled(here)


def test_of_an_error_a_span_tells_the_type_alone(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    with pytest.raises(LookupError), tracing.batch_span("batch", [SAMPLED]):
        raise LookupError("no card 4111-1111")
    (told,) = spans.get_finished_spans()
    assert told.attributes == {"error.type": "LookupError"}
    assert told.status.status_code is StatusCode.ERROR
    assert "4111" not in told.to_json()


def test_a_batch_span_joins_the_sampled_messages_and_costs_nothing_without(
    tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    with tracing.batch_span("batch", [UNSAMPLED, None]):
        assert current_traceparent() is None
    with tracing.batch_span("batch", [None, SAMPLED, UNSAMPLED, OTHER, SAMPLED]):
        place = current_traceparent()
        _, own = tracing.begin("step", SAMPLED)
        _, foreign = tracing.begin("step", OTHER)
    assert place is not None
    assert place.trace_id == TRACE
    for span in (own, foreign):
        assert span is not None
        span.end()
    batch, inside, across = spans.get_finished_spans()
    assert [f"{link.context.trace_id:032x}" for link in batch.links] == ["ab" * 16]
    assert inside.links == ()
    assert [link.context for link in across.links] == [batch.context]


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "exporter_unknown"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            "exporter_unknown",
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "exporter_missing",
        ),
    ],
)
def test_an_exporter_that_is_not_there_is_named(variables: dict[str, str], code: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Tracing.start("test", variables)
    assert refused.value.code == code


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"},
    ],
)
def test_tracing_is_off_unless_asked_for(variables: dict[str, str]) -> None:
    assert not Tracing.start("test", variables).enabled


def test_every_line_about_a_saga_names_it_and_its_trace() -> None:
    assert log_fields("s", SAMPLED) == {"saga_id": "s", "trace_id": TRACE}
    assert log_fields("s", "nonsense") == {"saga_id": "s"}
