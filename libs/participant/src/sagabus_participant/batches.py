"""Commands from Kafka, a batch in one transaction: the `BatchHandler` of the bus."""

from __future__ import annotations

from collections.abc import Sequence

from sagabus_bus import Reason, dead_letter_row
from sagabus_messages import MessageError, Record
from sagabus_participant.calls import Due
from sagabus_participant.handling import Handling
from sagabus_participant.orders import Order, read_order
from sagabus_participant.session import JOURNAL, Session
from sagabus_participant.shell import Shell
from sagabus_runtime import failpoints
from sagabus_store import Claim, Connection, inbox, outbox

__all__ = ["CommandBatches"]


class CommandBatches:
    """Handles records of the participant's command topic."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._handling = Handling(shell.meters)

    async def process(self, records: Sequence[Record]) -> None:
        """Handle a batch in one transaction; everything is durable on return.

        A repeat changes nothing. Raises the `MessageError` of a record that must be dead-lettered,
        and what is retryable in an outage; either way nothing of the batch has happened.
        """
        shell = self._shell
        orders = [read_order(record, shell.participant, shell.topics) for record in records]
        async with shell.db.transaction() as conn:
            session = shell.session(conn)
            await session.lock(orders)
            fresh = await self._claim(conn, session, orders)
            await conn.execute(JOURNAL["open_savepoint"])
            for order in fresh:
                await self._handle(session, order)
            await session.flush()
            await failpoints.reach("participant.before-commit")
        await failpoints.reach("participant.after-commit")
        if session.has_enqueued:
            shell.work_came.set()

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Send a poisonous record to its dead-letter topic, through the outbox."""
        async with self._shell.db.transaction() as conn:
            seen_at_ms = await self._shell.db.now_ms()
            row = dead_letter_row(record, reason, attempts=attempts, seen_at_ms=seen_at_ms)
            await outbox.append_locked(conn, [row])

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

    async def _handle(self, session: Session, order: Order) -> None:
        if session.is_queued(order):
            return
        due = self._handling.admit(session, order)
        if due is None:
            return
        if order.step.rules.local:
            await self._run_local(session, due)
        else:
            session.enqueue(order, session.now_ms)

    async def _run_local(self, session: Session, due: Due) -> None:
        later = await self._handling.run_local(session, due)
        if later is not None:
            # A stuck command holds no partition: it goes on from the work table.
            expires_at_ms = due.order.ask.expires_at_ms
            session.enqueue(due.order, self._shell.retry_at_ms(session.now_ms, 1, expires_at_ms))
