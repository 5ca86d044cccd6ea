"""Keeping the processes of a system up until a signal: what `services` and `join` share."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sagabus_cli.output import current_output
from sagabus_testkit.system import System

__all__ = ["revive", "until_signal"]


@contextmanager
def until_signal() -> Iterator[threading.Event]:
    """Return an event that the signals set which end a command."""
    ended = threading.Event()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    former = {number: signal.signal(number, lambda *_: ended.set()) for number in numbers}
    try:
        yield ended
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def revive(system: System) -> None:
    """Start again what has ended."""
    for name in system.names:
        if not system.is_running(name):
            current_output().note(f"{name} ended: starting it again ({system.log_path(name)})")
            system.spawn(name)
