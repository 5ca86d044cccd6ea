"""The engine's two entry points."""

from __future__ import annotations

from sagabus_core.definitions.model import Definition
from sagabus_core.engine.events import Event, StartRequest
from sagabus_core.engine.snapshot import Decision, Snapshot

__all__ = ["decide", "start"]


def start(definition: Definition, request: StartRequest, now_at_ms: int) -> Decision:
    """Return the first snapshot (revision 1) and its effects."""
    raise NotImplementedError


def decide(definition: Definition, snapshot: Snapshot, event: Event, now_at_ms: int) -> Decision:
    """Return what `event` makes of `snapshot`."""
    raise NotImplementedError
