"""How long a fault lasts, and how long it waits for what another fault took away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sagabus_runtime.errors import is_retryable

__all__ = ["hold", "patiently"]

T = TypeVar("T")
_PATIENCE_S: Final = 60.0
_RETRY_S: Final = 0.2


async def hold(seconds: float) -> None:
    """Let a fault last. This is the fault itself, no wait for its effect."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()


async def patiently(work: Callable[[], Awaitable[T]]) -> T:
    """Return what `work` returns, tried again in outages of a server, for a minute."""
    deadline = time.monotonic() + _PATIENCE_S
    while True:
        try:
            return await work()
        except Exception as error:
            if not is_retryable(error) or time.monotonic() > deadline:
                raise
        await asyncio.sleep(_RETRY_S)
