"""A dead letter is the record as it came, plus where it stood and why it failed."""

from sagabus_bus import Reason, dead_letter_row, dead_letter_topic, reason_of
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
