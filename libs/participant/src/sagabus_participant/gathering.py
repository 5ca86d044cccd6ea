"""Many small writes as few transactions: what comes while one is written joins the next."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from sagabus_store import StoreUnavailable

__all__ = ["Gathering"]

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Waiting(Generic[T, R]):
    """Something to be written, and who waits for it."""

    one: T
    answer: asyncio.Future[R]

    def tell(self, result: R) -> None:
        if not self.answer.done():
            self.answer.set_result(result)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class Gathering(Generic[T, R]):
    """Writes what is added, one lot at a time: all that waits, at most `most`.

    `together` writes a lot and gives one answer for each, in their order; it should give up soon
    where a single one of them has to wait. Whatever it raises, each of the lot is then written by
    `alone`, beside the lots to come: none of them suffers from its neighbours. Only what a lot of
    one raises is that one's own, unless it is `StoreUnavailable`.

    A lot begins no sooner than `pace_ms` after the last one ended, so that a stream of single ones
    becomes lots; after a pause the first does not wait.
    """

    def __init__(
        self,
        together: Callable[[Sequence[T]], Awaitable[Sequence[R]]],
        alone: Callable[[T], Awaitable[R]],
        *,
        most: int = 128,
        pace_ms: float = 0,
    ) -> None:
        self._together = together
        self._alone = alone
        self._most = most
        self._pace_s = pace_ms / 1000
        self._ended_at = 0.0
        self._queue: deque[_Waiting[T, R]] = deque()
        self._lots: asyncio.Task[None] | None = None
        self._single: set[asyncio.Task[None]] = set()

    async def add(self, one: T) -> R:
        """Return the answer once it is durable; raises what writing it alone has raised."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._queue.append(_Waiting(one, answer))
        if self._lots is None or self._lots.done():
            self._lots = asyncio.create_task(self._write(), name="lots")
        return await answer

    async def aclose(self) -> None:
        """Give up what is being written and what waits; their callers are cancelled already."""
        self._queue.clear()
        tasks = [*self._single, *([self._lots] if self._lots is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            wait_s = self._ended_at + self._pace_s - loop.time()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            if lot := self._take():
                await self._settle(lot)
                self._ended_at = loop.time()

    def _take(self) -> list[_Waiting[T, R]]:
        """Take what waits; what nobody waits for any more is left out."""
        taken = [self._queue.popleft() for _ in range(min(self._most, len(self._queue)))]
        return [waiting for waiting in taken if not waiting.answer.done()]

    async def _settle(self, lot: Sequence[_Waiting[T, R]]) -> None:
        try:
            answers = await self._together([waiting.one for waiting in lot])
        except Exception as error:  # noqa: BLE001  (told to whom it concerns; the lots go on)
            if len(lot) == 1 and not isinstance(error, StoreUnavailable):
                lot[0].fail(error)
                return
            for waiting in lot:
                task = asyncio.create_task(self._settle_alone(waiting), name="alone")
                self._single.add(task)
                task.add_done_callback(self._single.discard)
        else:
            for waiting, answer in zip(lot, answers, strict=True):
                waiting.tell(answer)

    async def _settle_alone(self, waiting: _Waiting[T, R]) -> None:
        try:
            waiting.tell(await self._alone(waiting.one))
        except Exception as error:  # noqa: BLE001  (told to the one that it concerns)
            waiting.fail(error)
