"""When a consumer commits its offsets: after a batch, but not after each of many small ones.

What is committed later than it could be is only delivered again after a crash, and absorbed; a
round trip to the coordinator after every few records is a hop's latency for nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError, IllegalStateError

from sagabus_bus.errors import translated
from sagabus_bus.events import ConsumerEvents
from sagabus_runtime.failpoints import reach

__all__ = ["Committer"]

FAILPOINT_BEFORE_COMMIT: Final = "bus.before-commit"


class Committer:
    """Commits positions, only while everything that was polled is durable: its callers see to it.

    At most one commit per `every_ms`, and one as soon as that has passed: `patience_ms` says how
    long a poll may wait.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        events: ConsumerEvents,
        *,
        every_ms: int,
        timeout_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._events = events
        self._every_ms = every_ms
        self._timeout_s = timeout_ms / 1000
        self._clock = clock
        self._committed_at = float("-inf")
        self._open = False

    def patience_ms(self, most_ms: int) -> int:
        """Return how long nothing may be polled before it is time to commit."""
        return min(most_ms, max(1, int(self._left_ms()) + 1)) if self._open else most_ms

    def forget(self) -> None:
        """Positions are not to be trusted: what is not committed will be polled again."""
        self._open = False

    async def note(self) -> None:
        """Everything that was polled is durable; commit if the last commit is long enough ago."""
        self._open = True
        await self.commit_if_due()

    async def commit_if_due(self) -> None:
        """Commit what is open if it is time."""
        if self._open and self._left_ms() <= 0:
            await self.commit()

    async def commit(self) -> None:
        """Commit what is open; does nothing where nothing is."""
        if not self._open:
            return
        await reach(FAILPOINT_BEFORE_COMMIT)
        with translated("commit offsets"):
            try:
                # Without a bound a rebalance that never ends would hold the loop for ever.
                async with asyncio.timeout(self._timeout_s):
                    await self._consumer.commit()
            except (CommitFailedError, IllegalStateError) as error:
                self._events.commit_lost(type(error).__name__)
        self._open = False
        self._committed_at = self._clock()

    def _left_ms(self) -> float:
        return self._every_ms - (self._clock() - self._committed_at) * 1000
