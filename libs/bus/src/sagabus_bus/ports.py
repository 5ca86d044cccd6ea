"""What the bus needs from others: a handler of batches, and a pulse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from sagabus_bus.dead_letters import Reason
from sagabus_messages.record import Record

__all__ = ["BatchHandler", "Pulse"]


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
