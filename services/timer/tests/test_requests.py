"""Requests of one batch: the highest generation of each saga counts."""

from sagabus_timer.requests import Arming, newest_per_saga


def test_the_highest_generation_counts_whatever_the_order() -> None:
    old, new = Arming("b", 1, 10, 0), Arming("b", 2, None, 0)
    other = Arming("a", 7, 5, 0)
    assert newest_per_saga([new, old, other]) == [other, new]
    assert newest_per_saga([old, new, other]) == [other, new]


def test_a_repeat_changes_nothing() -> None:
    request = Arming("a", 1, 10, 0)
    assert newest_per_saga([request, request]) == [request]
