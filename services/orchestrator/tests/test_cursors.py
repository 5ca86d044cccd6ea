"""Cursors: what a page gave out goes on there, anything else is refused before it is used."""

import base64
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sagabus_core.errors import InvalidValue
from sagabus_orchestrator import cursors
from sagabus_orchestrator.audit.cursor import Cursor
from sagabus_orchestrator.audit.fence import Fence

NUMBERS = st.integers(0, 2**63 - 1)
READERS: tuple[Callable[[str], object], ...] = (
    cursors.read,
    cursors.moment,
    cursors.saga_id,
    lambda text: cursors.integer(text, 2**31 - 1),
    Cursor.parse,
)


def packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300))
def test_what_was_written_is_read(text: str) -> None:
    assert cursors.read(cursors.written(text)) == text


@given(NUMBERS, st.none() | st.builds(Fence, NUMBERS, st.integers(1, 2**63 - 1), NUMBERS))
def test_a_place_in_a_stream_is_read_as_it_was_written(seq: int, fence: Fence | None) -> None:
    assert Cursor.parse(str(Cursor(seq, fence))) == Cursor(seq, fence)


@given(st.datetimes(datetime(1970, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC)))  # noqa: DTZ001
def test_a_moment_is_read_as_it_was_written(at: datetime) -> None:
    assert cursors.moment(at.isoformat()) == at


@given(st.text(max_size=500) | st.text(max_size=60).map(packed))
@example("\ud800")
@example("é" * 8)
@example(packed("1.2.3.4.5"))
@example(packed("1.2.3.0_4"))
@example(packed(f"{2**63}.0.0.0"))
@example("9" * 5_000)
@example(packed("1.0.0.0") + "\n")
def test_anything_else_is_refused_by_its_own_code(text: str) -> None:
    for read in READERS:
        try:
            found: object = read(text)
        except InvalidValue as error:
            found = error
        assert not isinstance(found, InvalidValue) or found.code == "invalid_cursor"
        assert not isinstance(found, Cursor) or str(found) == text


@pytest.mark.parametrize(
    "text",
    [
        "0001-01-01T00:00:00+14:00",
        "0001-01-01T00:00:00+00:00",
        "9999-12-31T23:59:59.999999-14:00",
        "2026-01-01T00:00:00",
        "2026-01-01",
        "2026-W01-1T00:00:00+00:00",
    ],
)
def test_a_moment_beyond_what_a_page_writes_is_refused(text: str) -> None:
    with pytest.raises(InvalidValue):
        cursors.moment(text)
