"""Long work says now and then, on standard error, how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from sagabus_cli.output import current_output

__all__ = ["Progress"]

_EVERY_S: Final = 2.0


class Progress:
    """Counts what is done and tells people every two seconds; programs hear nothing.

    Work that is quicker than that says nothing.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what = what
        self._clock = clock
        self._done = 0
        self._told_s = clock()

    def advance(self, count: int = 1) -> None:
        """Note that so many more are done."""
        self._done += count
        if self._clock() - self._told_s >= _EVERY_S:
            self._told_s = self._clock()
            current_output().note(f"{self._done} {self._what} so far")
