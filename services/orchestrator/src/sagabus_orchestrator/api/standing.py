"""Whether a caller who is still being answered would be let in again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import ClassVar

from sagabus_core.errors import SagabusError
from sagabus_orchestrator.api.identity import Principal

__all__ = ["Standing"]


class Standing:
    """The right of one caller to a long answer, asked for again while it goes on.

    A key that was revoked, a token that expired, a role that was taken away must not count for as
    long as a stream lives.
    """

    EVERY_S: ClassVar[float] = 5.0

    def __init__(
        self,
        granted: Principal,
        ask: Callable[[], Awaitable[Principal]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._granted = granted
        self._ask = ask
        self._clock = clock
        self._asked_at = clock()

    async def lasts(self) -> bool:
        """Say whether the caller is who they were, with the same rights; asks once in 5 s.

        While nobody can tell (an outage), what was granted stays granted.
        """
        if self._clock() - self._asked_at < self.EVERY_S:
            return True
        self._asked_at = self._clock()
        try:
            return await self._ask() == self._granted
        except SagabusError as error:
            return error.retryable
