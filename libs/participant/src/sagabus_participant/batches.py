"""Commands from Kafka, many in one transaction: the `BatchHandler` of the bus."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Final

from sagabus_bus import Reason, dead_letter_row
from sagabus_messages import MessageError, Record
from sagabus_participant.dispatch import Due
from sagabus_participant.handling import Handling
from sagabus_participant.orders import Order, check_writer, read_order
from sagabus_participant.session import JOURNAL, Session
from sagabus_participant.shell import Shell
from sagabus_participant.together import Together
from sagabus_runtime import failpoints
from sagabus_store import Claim, Connection, inbox, outbox

__all__ = ["CommandBatches"]

SLICE: Final = 128
"""Most commands of a transaction: enough for set-based work, and while its handlers wait for
Postgres the next ones are read."""

LONG_MS: Final = 2_000
"""A transaction that takes longer than this is followed by one of half as many commands."""


class CommandBatches:
    """Handles records of the participant's command topic.

    `on_progress` is called after each commit: a sign of life for the loop that waits.
    """

    def __init__(self, shell: Shell, on_progress: Callable[[], None] = lambda: None) -> None:
        self._shell = shell
        self._on_progress = on_progress
        self._handling = Handling()
        self._together = Together(shell.calls(), self._handling)
        self._size = SLICE

    async def process(self, records: Sequence[Record]) -> None:
        """Handle a batch; everything is durable on return.

        A repeat changes nothing. A large batch is several transactions, in order; they become
        smaller where handlers are so slow that locks would be held for seconds. Raises the
        `MessageError` of a record that must be dead-lettered, and what is retryable in an outage;
        what was not committed by then has not happened.
        """
        start = min(self._size, len(records))
        orders = [self._read(record) for record in records[:start]]
        while orders:
            part = records[start : start + self._size]
            start += len(part)
            began = time.monotonic()
            orders = await self._transact_and_read(orders, part)
            self._learn((time.monotonic() - began) * 1000)
            self._on_progress()

    async def process_within(
        self, conn: Connection, records: Sequence[Record]
    ) -> Callable[[], None]:
        """Handle records in the caller's own open transaction, on the participant's database.

        For a service that consumes by itself: commit, call what is returned (it counts, and wakes
        the workers), then commit the offsets. Raises as `process` does: roll back wholly then.
        """
        session = await self._write(conn, [self._read(record) for record in records])
        return lambda: self._committed(session)

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Send a poisonous record to its dead-letter topic, through the outbox."""
        async with self._shell.db.transaction() as conn:
            seen_at_ms = await self._shell.db.now_ms()
            row = dead_letter_row(record, reason, attempts=attempts, seen_at_ms=seen_at_ms)
            await outbox.append_locked(conn, [row])

    def _read(self, record: Record) -> Order:
        order = read_order(record, self._shell.participant, self._shell.topics)
        check_writer(order, self._shell.commands)
        return order

    async def _transact_and_read(
        self, orders: Sequence[Order], following: Sequence[Record]
    ) -> list[Order]:
        """Handle `orders`; read the following records while handlers wait for Postgres."""
        ahead = asyncio.create_task(self._read_ahead(following))
        try:
            await self._transact(orders)
        except BaseException:
            ahead.cancel()
            await asyncio.gather(ahead, return_exceptions=True)
            raise
        return await ahead

    async def _read_ahead(self, records: Sequence[Record]) -> list[Order]:
        orders = []
        for record in records:
            await asyncio.sleep(0)
            orders.append(self._read(record))
        return orders

    async def _transact(self, orders: Sequence[Order]) -> None:
        async with self._shell.db.transaction() as conn:
            session = await self._write(conn, orders)
            await failpoints.reach("participant.before-commit")
        await failpoints.reach("participant.after-commit")
        self._committed(session)

    async def _write(self, conn: Connection, orders: Sequence[Order]) -> Session:
        session = self._shell.session(conn)
        await session.lock(orders)
        await self._handle(session, await self._claim(conn, session, orders))
        await session.flush()
        return session

    def _committed(self, session: Session) -> None:
        self._shell.meters.add(session.tally)
        if session.has_enqueued:
            self._shell.work_came.set()

    def _learn(self, took_ms: float) -> None:
        if took_ms > LONG_MS:
            self._size = max(1, self._size // 2)
        elif took_ms < LONG_MS / 4:
            self._size = min(SLICE, self._size * 2)

    async def _claim(
        self, conn: Connection, session: Session, orders: Sequence[Order]
    ) -> list[Order]:
        for order in orders:
            verdict = self._shell.window.verdict(order.meta.ce_time_ms, session.now_ms)
            if verdict is not None:
                raise MessageError(verdict, f"ce_time of {order.meta.ce_id}")
        claims = [Claim(o.meta.source, o.meta.ce_id, o.meta.ce_time_ms) for o in orders]
        first = await inbox.claim(conn, self._shell.consumer, claims)
        return [order for order, is_first in zip(orders, first, strict=True) if is_first]

    async def _handle(self, session: Session, orders: Sequence[Order]) -> None:
        """Answer what the journal answers, call local handlers, hand the rest to the workers."""
        dues: dict[str, Due] = {}
        for order in orders:
            if order.execute_id in dues:
                # The commands of one activation meet what the earlier one has left.
                await self._run(session, dues)
            due = self._admitted(session, order)
            if due is not None:
                dues[order.execute_id] = due
        await self._run(session, dues)

    def _admitted(self, session: Session, order: Order) -> Due | None:
        if session.is_queued(order):
            return None
        due = self._handling.admit(session, order)
        if due is None or order.step.rules.local:
            return due
        session.enqueue(order, session.now_ms)
        return None

    async def _run(self, session: Session, dues: dict[str, Due]) -> None:
        if not dues:
            return
        await session.conn.execute(JOURNAL["open_savepoint"])
        for due in await self._together.run(session, list(dues.values())):
            # A stuck command holds no partition: it goes on from the work table.
            expires_at_ms = due.order.ask.expires_at_ms
            session.enqueue(due.order, self._shell.retry_at_ms(session.now_ms, 1, expires_at_ms))
        await session.conn.execute(JOURNAL["close_savepoint"])
        dues.clear()
