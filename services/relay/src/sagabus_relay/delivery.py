"""How the rows of one slot reach Kafka: the port, and its one implementation over the bus.

Every slot has a transactional id. Opening the producer draws a new epoch of it, and the broker then
refuses what a revived former owner still tries to write. Whether each round is also a transaction
is decided by the publisher's options alone. The order of first occurrences rests on the shape of a
round (see `plan`) and needs neither: both only keep repeats short.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, assert_never

from sagabus_bus import (
    Blocked,
    Held,
    KafkaConnection,
    Published,
    Publisher,
    PublisherOptions,
    Refused,
    Unacknowledged,
)
from sagabus_bus import Outcome as BusOutcome
from sagabus_messages.record import OutboxRow, unpack_headers
from sagabus_relay import plan
from sagabus_relay.errors import LeaseLost
from sagabus_relay.lease import Lease
from sagabus_relay.plan import Outcome, Row

__all__ = ["Delivery", "KafkaDelivery"]


class Delivery(Protocol):
    """Publishes rows of one slot while its lease allows it."""

    async def open(self) -> None:
        """Connect, and shut out every former owner where the delivery can."""

    async def deliver(self, rows: Sequence[Row]) -> list[Outcome]:
        """Return one outcome per row, in order; raises `LeaseLost` rather than send."""

    async def close(self) -> None:
        """Finish what is in flight and disconnect; safe to call twice."""

    async def abandon(self) -> None:
        """Disconnect at once and send nothing more; safe to call twice."""


class KafkaDelivery:
    """A publisher under a lease."""

    def __init__(
        self, connection: KafkaConnection, options: PublisherOptions, lease: Lease
    ) -> None:
        self._publisher = Publisher(connection, options)
        self._lease = lease

    async def open(self) -> None:
        """Connect; with a transactional id every former owner of the slot is fenced."""
        self._guard()
        await self._publisher.open()

    async def deliver(self, rows: Sequence[Row]) -> list[Outcome]:
        """Publish in order; the lease is asked before every send and every commit."""
        records = [
            OutboxRow(row.topic, row.key, unpack_headers(row.headers), row.value) for row in rows
        ]
        outcomes = await self._publisher.publish(records, self._guard)
        return [_outcome(outcome) for outcome in outcomes]

    async def close(self) -> None:
        """Close the producer after everything in flight has landed."""
        await self._publisher.close()

    async def abandon(self) -> None:
        """Close the producer unflushed."""
        await self._publisher.abandon()

    def _guard(self) -> None:
        if not self._lease.allows():
            raise LeaseLost("lease_lost", f"{self._lease.slot} is no longer ours")


def _outcome(outcome: BusOutcome) -> Outcome:
    match outcome:
        case Published():
            return plan.Sent()
        case Refused(error):
            return plan.Refused(error.code, error.detail)
        case Blocked():
            return plan.Blocked()
        case Held(error):
            return plan.TopicClosed(error.code)
        case Unacknowledged(error):
            return plan.Unsent(error.detail)
        case _:
            assert_never(outcome)
