"""Wait for a condition with a deadline, in plain synchronous code."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Probe", "wait_until"]

Probe = Callable[[], bool]
POLL_S = 0.02


def wait_until(condition: Probe, *, within_s: float) -> bool:
    """Poll `condition` every 20 ms; return whether it became true before the deadline."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True
