"""The inbox window and the day of a message."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagabus_core.errors import InvalidValue
from sagabus_runtime import SettingsError
from sagabus_store import InboxWindow
from sagabus_store.inbox import DAY_MS, day_of

NOW = 1_796_083_200_000
INSTANTS = st.integers(0, 4_102_444_800_000)


@given(INSTANTS)
def test_the_day_is_the_utc_day(at_ms: int) -> None:
    assert day_of(at_ms) == datetime.fromtimestamp(at_ms // 1000, UTC).date()


@pytest.mark.parametrize("at_ms", [-(10**18), 10**18])
def test_absurd_instants_still_have_a_day(at_ms: int) -> None:
    assert day_of(at_ms) in {date.min, date.max}


@given(INSTANTS, st.integers(1, 365), st.integers(-400 * DAY_MS, 2 * DAY_MS))
def test_whatever_is_accepted_has_a_partition_also_a_day_later(
    now_ms: int, days: int, offset_ms: int
) -> None:
    window = InboxWindow(days)
    if window.verdict(now_ms + offset_ms, now_ms) is None:
        for claimed_at_ms in (now_ms, now_ms + DAY_MS):
            first, last = window.span(claimed_at_ms)
            assert first <= day_of(now_ms + offset_ms) <= last


def test_verdicts_at_the_edges() -> None:
    window = InboxWindow(7)
    assert window.verdict(NOW - 7 * DAY_MS, NOW) is None
    assert window.verdict(NOW - 7 * DAY_MS - 1, NOW) == "too_old"
    assert window.verdict(NOW + 600_000, NOW) is None
    assert window.verdict(NOW + 600_001, NOW) == "too_new"


def test_trap_05_a_window_shorter_than_what_the_broker_keeps_is_refused() -> None:
    InboxWindow(8).require_covers(7 * DAY_MS, DAY_MS - 1)
    with pytest.raises(SettingsError, match="inbox_window_too_short"):
        InboxWindow(8).require_covers(7 * DAY_MS, DAY_MS)
    with pytest.raises(InvalidValue):
        InboxWindow(0)
