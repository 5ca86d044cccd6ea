"""A paced load has to wait for its moment: the only waits of the benchmarks."""

from __future__ import annotations

import asyncio
from contextlib import suppress

__all__ = ["pause"]


async def pause(seconds: float) -> None:
    """Return after so many seconds, at once for none."""
    with suppress(TimeoutError):
        async with asyncio.timeout(max(0.0, seconds)):
            await asyncio.Event().wait()
