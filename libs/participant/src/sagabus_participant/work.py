"""One leased command: commit the intent, call, commit the receipt.

Every transaction locks the activation first and the command's own row after it, so that batches,
workers and callbacks never wait for each other in a circle.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from sagabus_bus import record_fields
from sagabus_participant.dispatch import Due
from sagabus_participant.handling import Handling
from sagabus_participant.journal import Finding
from sagabus_participant.orders import Order, read_order, unpack_record
from sagabus_participant.session import JOURNAL, WORK, Session
from sagabus_participant.settlement import Later
from sagabus_participant.shell import Shell
from sagabus_participant.telemetry import EVENT_RECEIPT_DELAYED
from sagabus_runtime import failpoints
from sagabus_runtime.backoff import BackOff
from sagabus_runtime.logs import get_logger
from sagabus_store import StoreUnavailable

__all__ = ["Item", "WorkBench"]


@dataclass(frozen=True, slots=True)
class Item:
    """A claimed row of the work table: ours while the lease lasts."""

    id: int
    lease: str
    record: bytes
    tries: int


class WorkBench:
    """Works on one item at a time per call; safe to call at once for different items."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._handling = Handling()
        self._calls = shell.calls()

    async def work(self, item: Item) -> None:
        """Bring one command as far as it goes now: answered, ignored, or due again later.

        Raises what is retryable in an outage; the row then stays, and its lease runs out.
        """
        order = read_order(unpack_record(item.record), self._shell.participant, self._shell.topics)
        if order.step.rules.local:
            await self._work_locally(item, order)
            return
        due = await self._begin(item, order)
        if due is None:
            return
        await failpoints.reach("participant.after-intent")
        finding = await self._calls.call_external(self._shell.db, due)
        await failpoints.reach("participant.after-call")
        await self._receive(item, due, finding)

    async def _work_locally(self, item: Item, order: Order) -> None:
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock([order])
            if not await self._holds(session, item):
                return
            await conn.execute(JOURNAL["open_savepoint"])
            due = self._handling.admit(session, order)
            later = None
            if due is not None:
                finding = await self._calls.call(conn, due)
                later = self._handling.settle(session, due, finding)
            await self._close(session, item, order, later)
            await session.flush()
            await failpoints.reach("participant.before-commit")
        self._shell.meters.add(session.tally)

    async def _begin(self, item: Item, order: Order) -> Due | None:
        """Commit the intent, or the answer where no call is due."""
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock([order])
            if not await self._holds(session, item):
                return None
            due = self._handling.admit(session, order)
            if due is None:
                await self._close(session, item, order, None)
            else:
                session.put(order, due.activation)
            await session.flush()
            await failpoints.reach("participant.before-intent")
        self._shell.meters.add(session.tally)
        return due

    async def _receive(self, item: Item, due: Due, finding: Finding) -> None:
        """Commit the receipt; what was found is not given up because the database is away."""
        back_off = BackOff()
        while True:
            try:
                await self._receive_once(item, due, finding)
            except StoreUnavailable as error:
                wait_ms = back_off.next_ms()
                get_logger().warning(
                    EVENT_RECEIPT_DELAYED,
                    reason=error.code,
                    delay_ms=wait_ms,
                    **record_fields(due.order.record.headers),
                )
                await asyncio.sleep(wait_ms / 1000)
            else:
                return

    async def _receive_once(self, item: Item, due: Due, finding: Finding) -> None:
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock([due.order])
            # Without looking at the lease: what was found is a fact, whoever holds the row now.
            later = self._handling.settle(session, due, finding)
            await self._close(session, item, due.order, later)
            await session.flush()
            await failpoints.reach("participant.before-receipt")
        self._shell.meters.add(session.tally)
        await failpoints.reach("participant.after-receipt")

    async def _close(self, session: Session, item: Item, order: Order, later: Later | None) -> None:
        if later is None:
            await session.conn.execute(WORK["finish"], [item.id], item.lease)
            return
        now_ms = session.now_ms
        due_at_ms = now_ms
        if not later.at_once:
            due_at_ms = self._shell.retry_at_ms(now_ms, item.tries, order.ask.expires_at_ms)
        await session.conn.execute(WORK["postpone"], item.id, item.lease, due_at_ms)

    @staticmethod
    async def _holds(session: Session, item: Item) -> bool:
        row = await session.conn.fetchrow(WORK["hold"], item.id, item.lease)
        return row is not None
