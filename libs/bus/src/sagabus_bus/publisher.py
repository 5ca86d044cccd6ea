"""Publishing: rows in, one outcome per row out, order per key kept whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from sagabus_bus.connection import KafkaConnection
from sagabus_bus.errors import (
    BusError,
    BusMisconfigured,
    BusUnavailable,
    ProducerFenced,
    RecordRefused,
    TopicUnavailable,
)
from sagabus_bus.lanes import Batch, Held, Outcome, Place, Unacknowledged, Voyage
from sagabus_bus.producing import ProducerSession, PublisherOptions, partition_of
from sagabus_messages.record import OutboxRow
from sagabus_runtime.failpoints import reach

__all__ = ["Guard", "Publisher"]

FAILPOINT_BEFORE_SEND: Final = "bus.before-send"
FAILPOINT_AFTER_SEND: Final = "bus.after-send"

Guard: TypeAlias = Callable[[], None]
"""Raises when this process may publish no more (a lost lease); asked before every send."""

_Sent: TypeAlias = list[tuple[Place, Batch, int]]


class Publisher:
    """Publishes rows in order per (topic, key), acknowledged by all replicas, at least once.

    A producer lives until the first failure and is then abandoned unflushed, because the driver
    does not repair its sequence numbers; the next call opens another. One call at a time; calls
    that overlap wait for each other.
    """

    def __init__(
        self, connection: KafkaConnection, options: PublisherOptions | None = None
    ) -> None:
        self._connection = connection
        self._options = options or PublisherOptions()
        self._transactional = (
            self._options.transactions and self._options.transactional_id is not None
        )
        self._session: ProducerSession | None = None
        self._turn = asyncio.Lock()

    async def open(self) -> None:
        """Start the producer now; with a transactional id this fences every older owner.

        `publish` does it on first use. Raises `BusUnavailable` or `BusMisconfigured`.
        """
        async with self._turn:
            await self._opened()

    async def publish(
        self, rows: Sequence[OutboxRow], guard: Guard = lambda: None
    ) -> list[Outcome]:
        """Return what became of each row, in the order of `rows`.

        First occurrences per (topic, key) appear in the log in the order of `rows`. Whatever is
        not `Published` and not `Unacknowledged` is certainly not in the log. Raises
        `ProducerFenced`, `BusMisconfigured` and what `guard` raises; rows may then be in the log
        or not, as if all were `Unacknowledged`.
        """
        async with self._turn:
            voyage = Voyage(rows)
            try:
                await self._carry(voyage, guard)
            except BusUnavailable as error:
                await self._abandon()
                voyage.give_up(error)
            except BaseException:
                await self._abandon()
                raise
            return voyage.outcomes

    async def close(self) -> None:
        """Close the producer; safe to call twice, and before the first publish."""
        async with self._turn:
            if self._session is not None:
                session, self._session = self._session, None
                await session.close()

    async def abandon(self) -> None:
        """Close at once, flushing nothing: after a lost lease."""
        await self._abandon()

    async def _carry(self, voyage: Voyage, guard: Guard) -> None:
        guard()
        await self._load(voyage, await self._opened())
        while voyage.unsettled():
            guard()
            session = await self._opened()
            if not self._transactional:
                clean = await self._sail(voyage, session, guard, None)
            else:
                clean = await self._transact(voyage, session, guard)
            if not clean:
                await self._abandon()

    async def _load(self, voyage: Voyage, session: ProducerSession) -> None:
        counts = await session.partition_counts(voyage.topics)
        for number, row in voyage.numbered():
            count = counts[row.topic]
            if isinstance(count, TopicUnavailable):
                voyage.held(number, count)
            else:
                voyage.load(number, (row.topic, partition_of(row.key, count)))

    async def _transact(self, voyage: Voyage, session: ProducerSession, guard: Guard) -> bool:
        """Publish what is waiting in one transaction; False if it has to be tried again."""
        sent: _Sent = []
        await session.begin()
        if not await self._sail(voyage, session, guard, sent):
            for place, batch, _ in reversed(sent):
                voyage.take_back(place, batch)
            return False
        guard()
        await session.commit()
        for place, batch, offset in sent:
            voyage.published(place, batch, offset)
        return True

    async def _sail(
        self, voyage: Voyage, session: ProducerSession, guard: Guard, sent: _Sent | None
    ) -> bool:
        """Send wave after wave; False after the first one of which a batch did not get through.

        Within a transaction acknowledged batches are only collected in `sent`.
        """
        while wave := voyage.next_wave(self._options.max_batch_bytes):
            guard()
            clean = True
            await reach(FAILPOINT_BEFORE_SEND)
            results = await session.send(wave)
            await reach(FAILPOINT_AFTER_SEND)
            for place, result in results.items():
                batch = wave[place]
                if isinstance(result, BusError):
                    clean = False
                    self._fail(voyage, place, batch, result)
                elif sent is None:
                    voyage.published(place, batch, result)
                else:
                    sent.append((place, batch, result))
            if not clean:
                return False
        return True

    def _fail(self, voyage: Voyage, place: Place, batch: Batch, error: BusError) -> None:
        if isinstance(error, RecordRefused):
            voyage.refused(place, batch, error)
        elif isinstance(error, TopicUnavailable):
            voyage.abandon(place, batch, Held(error))
        elif isinstance(error, ProducerFenced | BusMisconfigured):
            raise error
        elif not self._transactional:
            voyage.abandon(place, batch, Unacknowledged(error))
        else:
            raise error  # nothing of this transaction counts

    async def _opened(self) -> ProducerSession:
        if self._session is None:
            self._session = await ProducerSession.open(self._connection, self._options)
        return self._session

    async def _abandon(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.abandon()
