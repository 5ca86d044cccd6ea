"""The codec, where a test needs more than one record of contracts/examples can say."""

import dataclasses
import pickle
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagabus_core import ids
from sagabus_core.errors import InvalidValue, SagabusError
from sagabus_core.names import MAX_BODY_BYTES
from sagabus_messages import (
    Kind,
    Lifecycle,
    MessageError,
    Record,
    Stamp,
    Start,
    Topics,
    WakeupRequest,
    age_problem,
    decode,
    encode,
    format_instant,
    inbox_day,
    json_payload,
    pack_headers,
    parse_instant,
    saga_of,
    source_of,
    unpack_headers,
)

TOPICS = Topics("dev.")
TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
STAMP = Stamp(source_of("shop"), 1_767_225_600_000, TRACE, "a=1")
START = Start(tenant="acme", workflow="order", business_key="o-1")


def record(start: Start = START, stamp: Stamp = STAMP) -> Record:
    row = encode(start, TOPICS.start, stamp, ce_id="s-1")
    return Record(row.topic, 0, 0, row.key, row.value, row.headers, 0)


def with_header(name: str, value: bytes) -> Record:
    sent = record()
    kept = tuple(pair for pair in sent.headers if pair[0] != name)
    return dataclasses.replace(sent, headers=(*kept, (name, value)))


def test_meta_says_where_a_record_came_from() -> None:
    meta = decode(record(), TOPICS).meta
    assert meta.topic.kind is Kind.START
    assert (meta.ce_id, meta.source, meta.ce_time_ms) == ("s-1", STAMP.source, STAMP.ce_time_ms)
    assert (meta.traceparent, meta.tracestate) == (TRACE, "a=1")
    assert meta.saga_id == ids.saga_id("acme", "order", "o-1") == saga_of(START)


@pytest.mark.parametrize("trace", [b"", b"nonsense", b"\xff", TRACE.upper().encode()])
def test_an_unreadable_trace_is_dropped_not_refused(trace: bytes) -> None:
    meta = decode(with_header("traceparent", trace), TOPICS).meta
    assert (meta.traceparent, meta.tracestate) == (None, None)


def test_a_foreign_header_may_stand_twice_and_hold_anything() -> None:
    sent = record()
    extra = (("x", b"\xff"), ("x", b"\x00"))
    assert decode(dataclasses.replace(sent, headers=sent.headers + extra), TOPICS).body == START


@pytest.mark.parametrize("name", ["ce_id", "ce_source", "ce_subject", "ce_time", "sagabus-redrive"])
def test_headers_are_text(name: str) -> None:
    with pytest.raises(MessageError) as refusal:
        decode(with_header(name, b"\xff"), TOPICS)
    assert refusal.value.code == "invalid_header"


def test_dataschema_may_be_left_out() -> None:
    sent = record()
    kept = tuple(pair for pair in sent.headers if pair[0] != "ce_dataschema")
    assert decode(dataclasses.replace(sent, headers=kept), TOPICS).body == START


def test_another_environment_is_unknown() -> None:
    with pytest.raises(MessageError) as refusal:
        decode(record(), Topics("prod."))
    assert refusal.value.code == "unknown_topic"


@pytest.mark.parametrize("ce_id", [None, ""])
def test_a_start_is_given_its_id(ce_id: str | None) -> None:
    with pytest.raises(MessageError):
        encode(START, TOPICS.start, STAMP, ce_id=ce_id)


def test_no_other_message_is_given_one() -> None:
    request = WakeupRequest(saga_id=saga_of(START), generation=1, at_ms=None)
    with pytest.raises(MessageError):
        encode(request, TOPICS.wakeup_request, STAMP, ce_id="x")
    assert encode(request, TOPICS.wakeup_request, STAMP).key == saga_of(START).encode()


def test_trap_16_the_largest_body_fits_and_one_byte_more_does_not() -> None:
    room = MAX_BODY_BYTES - len(record(with_note(0)).value or b"")
    assert decode(record(with_note(room)), TOPICS).body == with_note(room)
    with pytest.raises(MessageError) as refusal:
        record(with_note(room + 1))
    assert refusal.value.code == "body_too_large"


def with_note(size: int) -> Start:
    return START.model_copy(update={"payload": json_payload({"note": "x" * size}, "urn:n:v1")})


def test_a_source_needs_a_name() -> None:
    with pytest.raises(MessageError):
        encode(START, TOPICS.start, Stamp("shop", 0), ce_id="s")


def test_an_answer_without_revision_needs_its_start_source() -> None:
    answer = Lifecycle.model_validate(
        {
            "saga_id": saga_of(START),
            "tenant": "acme",
            "workflow": "order",
            "business_key": "o-1",
            "status": "COMPLETED",
            "start_id": "s-1",
            "occurred_at_ms": 0,
        }
    )
    with pytest.raises(MessageError) as refusal:
        encode(answer, TOPICS.lifecycle, STAMP)
    assert refusal.value.code == "missing_header"


@pytest.mark.parametrize("prefix", ["dev", "Dev.", ".", "a..", "dev.sagabus"])
def test_a_prefix_ends_with_a_dot(prefix: str) -> None:
    with pytest.raises(MessageError):
        Topics(prefix)


def test_the_catalogue_holds_every_topic_and_its_dead_letters() -> None:
    specs = TOPICS.catalogue(["pay", "ship", "pay"], partitions=3)
    assert len(specs) == 2 * (4 + 2 * 2)
    assert {spec.partitions for spec in specs} == {3}
    by_name = {spec.name: spec for spec in specs}
    for spec in specs:
        assert TOPICS.parse(spec.name).kind is spec.kind
        if not spec.is_dead_letter:
            dead = by_name[TOPICS.dlt(spec.name)]
            assert dead.max_message_bytes > spec.max_message_bytes > MAX_BODY_BYTES
            assert dead.retention_ms > spec.retention_ms
    with pytest.raises(InvalidValue):
        TOPICS.command("Pay")


@pytest.mark.parametrize(
    "name", ["", "dev.", "dev.sagabus.start", "dev.sagabus.command.v1", "sagabus.start.v1",
             "dev.sagabus.start.v1.dlt.dlt", "dev.sagabus.result.a.b.v1", "dev.sagabus.start.v1\n"],
)  # fmt: skip
def test_other_names_are_unknown(name: str) -> None:
    with pytest.raises(MessageError) as refusal:
        TOPICS.parse(name)
    assert refusal.value.code == "unknown_topic"


@given(st.integers(0, 253_402_300_799_999))
def test_instants_cross_unchanged(at_ms: int) -> None:
    assert parse_instant(format_instant(at_ms)) == at_ms


@pytest.mark.parametrize(
    "text", ["2026-W01-1T00:00:00.000Z", "2026-01-01T24:00:00.000Z", "2026-01-01T23:59:60.000Z",
             "2026-01-01t00:00:00.000z", "2026-01-01T00:00:00,000Z", "1969-12-31T23:59:59.999Z",
             "2026-01-01T00:00:00.000Z\n", "\uff12026-01-01T00:00:00.000Z", "", None, 5],
)  # fmt: skip
def test_one_instant_has_one_text(text: object) -> None:
    with pytest.raises(MessageError):
        parse_instant(text)


@pytest.mark.parametrize("at_ms", [-1, 253_402_300_800_000])
def test_instants_outside_the_calendar_are_not_written(at_ms: int) -> None:
    with pytest.raises(MessageError):
        format_instant(at_ms)


def test_age() -> None:
    day, now = 86_400_000, 30 * 86_400_000
    assert age_problem(now - day, now, day) is None
    assert age_problem(now - day - 1, now, day) == "too_old"
    assert age_problem(now + 600_000, now, day) is None
    assert age_problem(now + 600_001, now, day) == "too_new"
    assert inbox_day(day - 1) == date(1970, 1, 1)
    assert inbox_day(day) == date(1970, 1, 2)


@settings(deadline=None)
@given(st.lists(st.tuples(st.text(st.characters(exclude_categories=["Cs"])), st.binary())))
def test_headers_pack_and_unpack(headers: list[tuple[str, bytes]]) -> None:
    assert unpack_headers(pack_headers(tuple(headers))) == tuple(headers)


@settings(deadline=None, max_examples=200)
@given(
    st.binary(max_size=40),
    st.lists(st.tuples(st.sampled_from(["ce_id", "ce_type", "x"]), st.binary(max_size=8))),
)
def test_whatever_arrives_only_a_message_error_comes_out(
    value: bytes, headers: list[tuple[str, bytes]]
) -> None:
    sent = record()
    broken = [
        dataclasses.replace(sent, value=value),
        dataclasses.replace(sent, headers=tuple(headers)),
        dataclasses.replace(sent, key=value),
    ]
    for candidate in broken:
        with pytest.raises(MessageError):
            decode(candidate, TOPICS)


def test_errors_cross_processes() -> None:
    error = pickle.loads(pickle.dumps(MessageError("invalid_json", "why")))
    assert isinstance(error, SagabusError)
    assert (error.code, error.detail, error.retryable) == ("invalid_json", "why", False)
