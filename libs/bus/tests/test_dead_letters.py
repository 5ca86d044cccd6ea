"""A dead letter is the record as it came, plus where it stood and why it failed."""

from dataclasses import replace

from sagabus_bus import Reason, dead_letter_row, dead_letter_topic, read_dead_letter, reason_of
from sagabus_core.errors import InvalidValue
from sagabus_core.ids import dead_letter_id
from sagabus_messages.record import Record

SOURCE = Record(
    "dev.sagabus.start.v1", 3, 42, b"saga", b"\xff{", (("ce_id", b"one"), ("x", b"\xfe\x00")), 7
)


def headers(row_headers: tuple[tuple[str, bytes], ...]) -> dict[str, bytes]:
    assert len(dict(row_headers)) == len(row_headers), "a header appears twice"
    return dict(row_headers)


def test_it_keeps_the_record_and_says_what_happened() -> None:
    row = dead_letter_row(SOURCE, Reason("too_old", "older than 8 days"), attempts=4, seen_at_ms=1)
    assert (row.topic, row.key, row.value) == ("dev.sagabus.start.v1.dlt", b"saga", b"\xff{")
    assert headers(row.headers) == {
        "ce_id": b"one",
        "x": b"\xfe\x00",
        "sagabus-dead-letter-id": dead_letter_id("dev.sagabus.start.v1", 3, 42).encode(),
        "sagabus-error-reason": b"too_old",
        "sagabus-error-detail": b"older than 8 days",
        "sagabus-error-source-topic": b"dev.sagabus.start.v1",
        "sagabus-error-source-partition": b"3",
        "sagabus-error-source-offset": b"42",
        "sagabus-error-first-seen": b"1970-01-01T00:00:00.001Z",
        "sagabus-error-attempts": b"4",
    }


def test_the_same_position_gives_the_same_letter() -> None:
    reason = Reason("x", "y")
    assert dead_letter_row(SOURCE, reason, attempts=1, seen_at_ms=5) == dead_letter_row(
        SOURCE, reason, attempts=1, seen_at_ms=5
    )


def test_a_letter_that_fails_again_stays_on_its_topic_with_new_facts() -> None:
    first = dead_letter_row(SOURCE, Reason("a", "b"), attempts=1, seen_at_ms=0)
    again = Record(first.topic, 0, 9, first.key, first.value, first.headers, 0)
    row = dead_letter_row(again, Reason("c", "d"), attempts=2, seen_at_ms=0)
    found = headers(row.headers)
    assert row.topic == first.topic == dead_letter_topic(first.topic)
    assert found["sagabus-error-reason"] == b"c"
    assert found["sagabus-error-source-offset"] == b"9"
    assert found["ce_id"] == b"one"


def test_details_are_bounded_and_survive_any_text() -> None:
    row = dead_letter_row(SOURCE, Reason("x", "\ud800" + "ä" * 5000), attempts=1, seen_at_ms=0)
    detail = headers(row.headers)["sagabus-error-detail"]
    assert len(detail) <= 1024
    assert detail.decode().startswith("?ä")


def test_our_errors_give_their_code_and_others_are_unexpected() -> None:
    assert reason_of(InvalidValue("invalid_name", "no")) == Reason("invalid_name", "no")
    assert reason_of(KeyError("step")) == Reason("unexpected_error", "KeyError: 'step'")


def stored(**changes: bytes | None) -> Record:
    """Return a letter as it stands in its topic, with changed headers (None: without)."""
    row = dead_letter_row(SOURCE, Reason("too_old", "why"), attempts=4, seen_at_ms=1)
    told = {**dict(row.headers), **{k.replace("_", "-"): v for k, v in changes.items()}}
    kept = tuple((name, value) for name, value in told.items() if value is not None)
    return Record(row.topic, 0, 5, row.key, row.value, kept, 0)


def test_a_letter_is_read_back_as_the_record_at_its_source() -> None:
    letter = read_dead_letter(stored())
    assert letter is not None
    assert letter.source == replace(SOURCE, timestamp_ms=0)
    assert letter.id == dead_letter_id(SOURCE.topic, SOURCE.partition, SOURCE.offset)
    assert (letter.reason, letter.attempts) == (Reason("too_old", "why"), 4)
    assert letter.first_seen == "1970-01-01T00:00:00.001Z"


def test_what_lies_about_its_source_is_not_believed() -> None:
    assert read_dead_letter(stored(sagabus_error_source_topic=b"dev.sagabus.result.x.v1")) is None
    assert read_dead_letter(stored(sagabus_error_source_offset=b"43")) is None
    assert read_dead_letter(stored(sagabus_error_source_partition=b"-3")) is None
    assert read_dead_letter(stored(sagabus_dead_letter_id=None)) is None
    assert read_dead_letter(SOURCE) is None
