"""How long a fault lasts."""

from __future__ import annotations

import asyncio

__all__ = ["hold"]


async def hold(seconds: float) -> None:
    """Let a fault last. This is the fault itself, no wait for its effect."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await over.wait()
