"""The timer's time: wall-clock steps neither fire early nor freeze."""

from hypothesis import given
from hypothesis import strategies as st

from sagabus_timer.clock import SteadyClock

HOUR = 3_600_000


def test_time_passes_between_sightings() -> None:
    clock = SteadyClock()
    assert not clock.known
    clock.sight(1_000_000, monotonic_ms=50)
    assert (clock.known, clock.now_ms(50), clock.now_ms(1_050)) == (True, 1_000_000, 1_001_000)


def test_a_clock_set_forward_is_followed_slowly() -> None:
    clock = SteadyClock(max_slew=0.01)
    clock.sight(0, monotonic_ms=0)
    assert clock.sight(1_000 + HOUR, monotonic_ms=1_000) == HOUR
    assert clock.now_ms(1_000) == 1_010


def test_a_clock_set_back_does_not_stop_ours() -> None:
    clock = SteadyClock(max_slew=0.01)
    clock.sight(HOUR, monotonic_ms=0)
    clock.sight(1_000, monotonic_ms=1_000)
    assert clock.now_ms(1_000) == HOUR + 990
    assert clock.now_ms(2_000) > clock.now_ms(1_000)


@given(st.lists(st.integers(-HOUR, HOUR), max_size=20))
def test_time_never_runs_backwards_nor_faster_than_it_may(steps: list[int]) -> None:
    clock = SteadyClock(max_slew=0.01)
    clock.sight(HOUR * 24, monotonic_ms=0)
    wall, last = HOUR * 24, HOUR * 24
    for second, step in enumerate(steps, 1):
        wall += 1_000 + step
        clock.sight(wall, monotonic_ms=second * 1_000)
        now = clock.now_ms(second * 1_000)
        assert 989 <= now - last <= 1_011
        last = now


def test_small_drift_is_closed_at_once() -> None:
    clock = SteadyClock(max_slew=0.01)
    clock.sight(0, monotonic_ms=0)
    clock.sight(1_005, monotonic_ms=1_000)
    assert clock.now_ms(1_000) == 1_005
