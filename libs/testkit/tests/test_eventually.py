"""Waiting: returns what came true, and fails with a story."""

import asyncio

import pytest

from sagabus_testkit import eventually, eventually_sync


async def test_it_returns_what_came_true() -> None:
    values = iter([None, 0, 42])
    assert await eventually(lambda: next(values)) == 42


async def test_an_asynchronous_condition_may_assert() -> None:
    tries = []

    async def third_time() -> bool:
        tries.append(1)
        assert len(tries) == 3, "too early"
        return True

    assert await eventually(third_time)


async def test_the_failure_tells_what_was_awaited_the_last_value_and_the_tries() -> None:
    story = r"not within 0.05 s: rows arrive; last of \d+ tries: \[\]"
    with pytest.raises(AssertionError, match=story):
        await eventually(list, within=0.05, what="rows arrive")


async def test_the_failure_shows_the_source_of_the_condition() -> None:
    rows: list[int] = []
    with pytest.raises(AssertionError, match="len\\(rows\\) == 1"):
        await eventually(lambda: len(rows) == 1, within=0.02)


async def test_a_condition_that_hangs_is_cut_off() -> None:
    with pytest.raises(AssertionError, match="no answer"):
        await eventually(asyncio.Event().wait, within=0.05)


async def test_other_errors_are_no_patience() -> None:
    def broken() -> bool:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await eventually(broken)


def test_it_waits_without_a_loop() -> None:
    values = iter([0, 1])
    assert eventually_sync(lambda: next(values)) == 1
    with pytest.raises(AssertionError, match="assertion: no"):
        eventually_sync(_never, within=0.02)


def _never() -> bool:
    raise AssertionError("no")
