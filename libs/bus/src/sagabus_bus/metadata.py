"""Keeps the driver from asking for metadata without a pause."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from aiokafka.client import AIOKafkaClient

from sagabus_bus.connection import RETRY_BACK_OFF_MS

__all__ = ["pace_metadata"]


def pace_metadata(client: AIOKafkaClient, pause_ms: int = RETRY_BACK_OFF_MS) -> None:
    """Let forced updates of this client's metadata begin at least `pause_ms` apart.

    While the leader of a partition is unknown, as after the orderly stop of a broker, the driver's
    sender and fetcher force an update, wait for that and nothing else, and force the next: on a
    refused connection thousands of times a second, with two lines in the log each. The first
    update stays immediate, those in the pause after it become one.
    """
    vars(client)["force_metadata_update"] = _Pace(client, pause_ms / 1000)


class _Pace:
    def __init__(self, client: AIOKafkaClient, pause_s: float) -> None:
        self._update: Final[Callable[[], asyncio.Future[bool]]] = client.force_metadata_update
        self._pause_s = pause_s
        self._next_at = 0.0
        self._waiting: asyncio.Future[bool] | None = None

    def __call__(self) -> asyncio.Future[bool]:
        """Return what tells whether the update succeeded; it may be cancelled by its waiter."""
        loop = asyncio.get_running_loop()
        if self._waiting is None:
            wait_s = self._next_at - loop.time()
            if wait_s <= 0:
                return self._begin(loop)
            self._waiting = loop.create_future()
            loop.call_later(wait_s, self._end_pause, loop)
        return asyncio.shield(self._waiting)

    def _begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Future[bool]:
        self._next_at = loop.time() + self._pause_s
        return self._update()

    def _end_pause(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return

        def hand_on(begun: asyncio.Future[bool]) -> None:
            if not waiting.done():
                broken = begun.cancelled() or begun.exception() is not None
                waiting.set_result(not broken and begun.result())

        self._begin(loop).add_done_callback(hand_on)
