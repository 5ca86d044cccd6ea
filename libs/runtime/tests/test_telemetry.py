"""W3C trace context in and out, and spans that keep to the parent's decision."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagabus_runtime import (
    SettingsError,
    TraceParent,
    Tracing,
    format_traceparent,
    parse_traceparent,
)
from sagabus_runtime.telemetry import current_traceparent, new_traceparent

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


def test_a_batch_span_links_the_sampled_parents() -> None:
    tracing = Tracing.start("test", ratio=1.0)
    parents = [TraceParent(TRACE, SPAN, True), TraceParent(TRACE, SPAN, False), None]
    with tracing.batch_span("batch", parents) as span:
        current = current_traceparent()
        assert current is not None
        assert current.sampled
        assert len(getattr(span, "links", ())) == 1
    assert current_traceparent() is None
    tracing.close()


def test_an_endpoint_without_the_exporter_says_what_to_install() -> None:
    with pytest.raises(SettingsError, match="pip install opentelemetry-exporter"):
        Tracing.start("test", 1.0, "http://127.0.0.1:4318/v1/traces")


@pytest.mark.parametrize("ratio", [0.0, 0.5])
def test_a_span_may_be_recorded_below_a_sampled_parent_or_as_a_root_by_the_ratio(
    ratio: float,
) -> None:
    tracing = Tracing.start("test", ratio)
    assert tracing.may_record(None) == (ratio > 0)
    assert tracing.may_record(TraceParent(TRACE, SPAN, sampled=True))
    assert not tracing.may_record(TraceParent(TRACE, SPAN, sampled=False))
    tracing.close()
