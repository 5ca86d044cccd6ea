"""What happens when whoever reads the output goes away, as `head` does."""

from __future__ import annotations

import os
import select
import sys
from typing import TextIO

__all__ = ["silence_closed"]


def silence_closed() -> bool:
    """Say whether nobody reads what this process prints, and let the rest of it go nowhere.

    What is still kept for a closed pipe would be written at the very end, and complain there.
    """
    closed = [stream for stream in (sys.stdout, sys.stderr) if _is_closed(stream)]
    if closed:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in closed:
            os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    return bool(closed)


def _is_closed(stream: TextIO) -> bool:
    poll = select.poll()
    try:
        poll.register(stream.fileno(), 0)
    except (OSError, ValueError):  # a stream of a test, without a file behind it
        return False
    return any(events & (select.POLLERR | select.POLLHUP) for _, events in poll.poll(0))
