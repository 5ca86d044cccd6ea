"""Waits grow, stay bounded, and spread."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sagabus_core.errors import InvalidValue
from sagabus_runtime import BackOff, BackOffPolicy


def test_waits_double_up_to_the_maximum_and_begin_anew() -> None:
    back_off = BackOff(BackOffPolicy(first_ms=100, max_ms=500, jitter=0))
    assert [back_off.next_ms() for _ in range(5)] == [100, 200, 400, 500, 500]
    assert back_off.attempts == 5
    back_off.reset()
    assert back_off.next_ms() == 100


@given(st.floats(0, 1, exclude_max=True), st.integers(1, 2000))
def test_a_wait_is_never_zero_and_never_above_the_maximum(draw: float, attempts: int) -> None:
    back_off = BackOff(BackOffPolicy(first_ms=1, max_ms=3_000, jitter=1.0), random=lambda: draw)
    waits = [back_off.next_ms() for _ in range(attempts)]
    assert all(1 <= wait <= 3_000 for wait in waits)


@pytest.mark.parametrize(
    "policy",
    [{"first_ms": 0}, {"first_ms": 9, "max_ms": 8}, {"factor": 0.5}, {"jitter": 1.1}],
)
def test_a_policy_without_a_bound_is_refused(policy: dict[str, float]) -> None:
    with pytest.raises(InvalidValue, match="invalid_back_off"):
        BackOffPolicy(**policy)  # type: ignore[arg-type]  # the mix of int and float is the point
