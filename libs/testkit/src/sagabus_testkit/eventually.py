"""Wait for a condition with a deadline instead of sleeping."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

__all__ = ["eventually", "eventually_sync"]

T = TypeVar("T")
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.1


@overload
async def eventually(
    condition: Callable[[], Awaitable[T | None]], *, within: float = ..., what: str = ...
) -> T: ...


@overload
async def eventually(
    condition: Callable[[], T | None], *, within: float = ..., what: str = ...
) -> T: ...


async def eventually(
    condition: Callable[[], object], *, within: float = 10.0, what: str = ""
) -> object:
    """Poll `condition`, synchronous or asynchronous, until it is true; return what it returned.

    A condition that raises `AssertionError` is not true yet, so it may assert what it waits for.
    After `within` seconds raises `AssertionError`, which tells what was waited for, the last
    value or assertion, and how often it was tried; a condition that hangs is cut off by then too.
    """
    waiting = _Waiting(condition, within, what)
    while True:
        try:
            async with asyncio.timeout(waiting.time_left()):
                outcome = condition()
                value = await outcome if inspect.isawaitable(outcome) else outcome
            if value:
                return value
            last = repr(value)
        except AssertionError as failure:
            last = f"assertion: {failure}"
        except TimeoutError:
            if waiting.time_left() > 0:
                raise  # the condition's own time-out: an error, not a matter of patience
            last = "no answer from the condition"
        await asyncio.sleep(waiting.pause_after(last))


def eventually_sync(
    condition: Callable[[], T | None], *, within: float = 10.0, what: str = ""
) -> T:
    """Do the same as `eventually` in a test without an event loop."""
    waiting = _Waiting(condition, within, what)
    while True:
        try:
            value = condition()
            if value:
                return value
            last = repr(value)
        except AssertionError as failure:
            last = f"assertion: {failure}"
        time.sleep(waiting.pause_after(last))


class _Waiting:
    """The deadline, the growing pauses between tries, and the story of a failure."""

    def __init__(self, condition: Callable[[], object], within: float, what: str) -> None:
        self._what = what or _describe(condition)
        self._within = within
        self._deadline = time.monotonic() + within
        self._pause = _FIRST_PAUSE_S
        self._tries = 0

    def time_left(self) -> float:
        return self._deadline - time.monotonic()

    def pause_after(self, last: str) -> float:
        self._tries += 1
        if self.time_left() <= 0:
            raise AssertionError(
                f"not within {self._within:g} s: {self._what}; "
                f"last of {self._tries} tries: {last[:2000]}"
            )
        current, self._pause = self._pause, min(self._pause * 1.5, _LONGEST_PAUSE_S)
        return max(0.0, min(current, self.time_left()))


def _describe(condition: Callable[[], object]) -> str:
    try:
        source = " ".join(inspect.getsource(condition).split())
    except (OSError, TypeError):
        return repr(condition)
    return source if len(source) <= 200 else f"{source[:200]}..."
