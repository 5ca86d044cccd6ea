"""The seams of the bus: what it needs from others, and what its in-memory twin must offer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from sagabus_bus.dead_letters import Reason
from sagabus_bus.lanes import Outcome
from sagabus_messages.record import OutboxRow, Record

__all__ = ["BatchHandler", "Guard", "Pulse", "RowPublisher"]

Guard: TypeAlias = Callable[[], None]
"""Raises when this process may publish no more (a lost lease); asked before every send."""


class BatchHandler(Protocol):
    """What a service does with records; the bus decides when, how often and in which slices.

    Errors carry the verdict. An outage (`retryable`, OSError) says nothing about the records: the
    bus holds and tries the same records again. Every other error says that a record of the slice
    cannot be handled: the bus finds it, sets it aside and goes on.
    """

    async def process(self, records: Sequence[Record]) -> None:
        """Handle records in one database transaction; durable when this returns.

        May meet any record again: repeats are normal, the inbox absorbs them.
        """

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Set one record aside in a transaction of its own: through the outbox, without a claim.

        May meet the same record again; the dead-letter id derives from its position.
        """


class Pulse(Protocol):
    """The part of `sagabus_runtime.health.Pulse` that a consumer needs."""

    @property
    def stopping(self) -> bool:
        """Whether the loop should finish the work in hand and return."""

    def beat(self) -> None:
        """Say that the loop goes round and is at work."""

    def excuse(self, trouble: str) -> None:
        """Say that the loop lives but is not at work, which makes the service not ready."""

    async def pause(self, ms: float) -> bool:
        """Wait; return True at once when asked to stop."""


class RowPublisher(Protocol):
    """What `Publisher` promises to those who publish."""

    async def publish(self, rows: Sequence[OutboxRow], guard: Guard = ...) -> list[Outcome]:
        """Return what became of each row, in the order of `rows`."""

    async def abandon(self) -> None:
        """Send nothing more of what is in flight."""

    async def close(self) -> None:
        """Close after what is in flight has landed."""
