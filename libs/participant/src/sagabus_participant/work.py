"""Leased commands: commit the intent, call, commit the receipt.

Intents of commands that were claimed together are one transaction, and so are the receipts of
calls that end at about the same time; what goes wrong with several is done again for each.

Every transaction locks the activations first, in id order, and the commands' own rows after them,
so that batches, workers and callbacks never wait for each other in a circle.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sagabus_bus import record_fields
from sagabus_core.vocabulary import Phase
from sagabus_participant.admission import Call
from sagabus_participant.dispatch import Due
from sagabus_participant.gathering import Gathering
from sagabus_participant.handling import Handling
from sagabus_participant.journal import EffectState, Finding
from sagabus_participant.orders import Order, read_input, read_order, unpack_record
from sagabus_participant.session import JOURNAL, WORK, Session
from sagabus_participant.settlement import Later
from sagabus_participant.shell import Shell
from sagabus_participant.telemetry import EVENT_RECEIPT_DELAYED
from sagabus_runtime import failpoints
from sagabus_runtime.backoff import BackOff
from sagabus_runtime.logs import get_logger
from sagabus_store import Connection, StoreUnavailable

__all__ = ["Item", "WorkBench"]

LOCK_WAIT_MS: Final = 250
"""So long several commands wait for the lock of one of them: somebody may hold it for seconds."""
PACE_MS: Final = 5
"""So long a receipt waits for others, where the last ones were written a moment ago."""


@dataclass(frozen=True, slots=True)
class Item:
    """A claimed row of the work table: ours while the lease lasts."""

    id: int
    lease: str
    record: bytes
    tries: int


class _Begin(NamedTuple):
    """A command whose intent is due."""

    item: Item
    order: Order


class _Receipt(NamedTuple):
    """What a call has found."""

    item: Item
    due: Due
    finding: Finding


class _Closing(NamedTuple):
    """What becomes of an item: done, or due again."""

    item: Item
    order: Order
    later: Later | None = None


class WorkBench:
    """Works on any number of items at once, each in a call of `work`."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._handling = Handling()
        self._calls = shell.calls()
        self._intents = Gathering(self._begin_together, self._begin_alone)
        self._receipts = Gathering(self._receive_together, self._receive_alone, pace_ms=PACE_MS)

    async def work(self, item: Item) -> None:
        """Bring one command as far as it goes now: answered, ignored, or due again later.

        Raises what is retryable in an outage; the row then stays, and its lease runs out.
        """
        order = read_order(unpack_record(item.record), self._shell.participant, self._shell.topics)
        if order.step.rules.local:
            await self._work_locally(item, order)
            return
        due = await self._intents.add(_Begin(item, order))
        if due is None:
            return
        await failpoints.reach("participant.after-intent")
        finding = await self._calls.call_external(self._shell.db, due)
        await failpoints.reach("participant.after-call")
        await self._receive(item, due, finding)

    async def aclose(self) -> None:
        """Give up what is being written: the calls of `work` are cancelled already."""
        await self._intents.aclose()
        await self._receipts.aclose()

    async def _work_locally(self, item: Item, order: Order) -> None:
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock_known([order])
            if not await _held(conn, [item]):
                return
            await conn.execute(JOURNAL["open_savepoint"])
            due = self._handling.admit(session, order)
            later = None
            if due is not None:
                finding = await self._calls.call(conn, due)
                later = self._handling.settle(session, due, finding)
            await self._close(session, [_Closing(item, order, later)])
            await session.flush()
            await failpoints.reach("participant.before-commit")
        self._shell.meters.add(session.tally)

    async def _begin_together(self, begins: Sequence[_Begin]) -> list[Due | None]:
        return await self._begin(begins, LOCK_WAIT_MS)

    async def _begin_alone(self, begin: _Begin) -> Due | None:
        (due,) = await self._begin([begin])
        return due

    async def _begin(
        self, begins: Sequence[_Begin], lock_wait_ms: int | None = None
    ) -> list[Due | None]:
        """Commit the intents, or the answers where no call is due; None then, or if not held."""
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock_known([begin.order for begin in begins], lock_wait_ms)
            held = await _held(conn, [begin.item for begin in begins])
            dues = [
                self._admitted(session, begin) if begin.item.id in held else None
                for begin in begins
            ]
            await self._close(
                session,
                [
                    _Closing(item, order)
                    for (item, order), due in zip(begins, dues, strict=True)
                    if due is None and item.id in held
                ],
            )
            await session.flush()
            await failpoints.reach("participant.before-intent")
        self._shell.meters.add(session.tally)
        return dues

    def _admitted(self, session: Session, begin: _Begin) -> Due | None:
        due = _unheard(session, begin) or self._handling.admit(session, begin.order)
        if due is not None:
            session.put(begin.order, due.activation)
        return due

    async def _receive(self, item: Item, due: Due, finding: Finding) -> None:
        await self._receipts.add(_Receipt(item, due, finding))

    async def _receive_together(self, receipts: Sequence[_Receipt]) -> list[None]:
        return await self._receive_once(receipts, LOCK_WAIT_MS)

    async def _receive_alone(self, receipt: _Receipt) -> None:
        """Commit a receipt; what was found is not given up because the database is away."""
        back_off = BackOff()
        while True:
            try:
                await self._receive_once([receipt])
            except StoreUnavailable as error:
                wait_ms = back_off.next_ms()
                get_logger().warning(
                    EVENT_RECEIPT_DELAYED,
                    reason=error.code,
                    delay_ms=wait_ms,
                    **record_fields(receipt.due.order.record.headers),
                )
                await asyncio.sleep(wait_ms / 1000)
            else:
                return

    async def _receive_once(
        self, receipts: Sequence[_Receipt], lock_wait_ms: int | None = None
    ) -> list[None]:
        async with self._shell.db.transaction() as conn:
            session = self._shell.session(conn)
            await session.lock_known([receipt.due.order for receipt in receipts], lock_wait_ms)
            # Without looking at the lease: what was found is a fact, whoever holds the row now.
            closings = [
                _Closing(item, due.order, self._handling.settle(session, due, finding))
                for item, due, finding in receipts
            ]
            await self._close(session, closings)
            await session.flush()
            await failpoints.reach("participant.before-receipt")
        self._shell.meters.add(session.tally)
        await failpoints.reach("participant.after-receipt")
        return [None] * len(receipts)

    async def _close(self, session: Session, closings: Sequence[_Closing]) -> None:
        done = [item for item, _, later in closings if later is None]
        if 0 < len(done) < len(closings):
            # Two statements follow: all rows are locked in id order before the first of them.
            await _held(session.conn, [item for item, _, _ in closings])
        if done:
            await session.conn.execute(WORK["finish"], *_columns(done))
        again = [closing for closing in closings if closing.later is not None]
        if again:
            due_at_ms = [self._due_at_ms(session.now_ms, closing) for closing in again]
            items = [item for item, _, _ in again]
            await session.conn.execute(WORK["postpone"], *_columns(items), due_at_ms)

    def _due_at_ms(self, now_ms: int, closing: _Closing) -> int:
        item, order, later = closing
        if later is not None and later.at_once:
            return now_ms
        return self._shell.retry_at_ms(now_ms, item.tries, order.ask.expires_at_ms)


def _unheard(session: Session, begin: _Begin) -> Due | None:
    """Return the call of an intent that we wrote without hearing of its commit.

    Under its first lease, which is still ours, nobody has called for the command: a connection
    that was lost while a lot committed must not put all of it in doubt.
    """
    item, order = begin
    activation = session.activation(order)
    effect = activation.effect(order.ask.about)
    ours = effect.state is EffectState.INTENT and effect.intent_command_id == order.ask.command_id
    if not ours or item.tries > 1 or session.now_ms >= order.ask.expires_at_ms:
        return None
    if order.ask.phase is not Phase.EXECUTE:
        return Due(order, Call.COMPENSATE, activation)
    given = read_input(order)
    return None if isinstance(given, Finding) else Due(order, Call.EXECUTE, activation, given)


def _columns(items: Sequence[Item]) -> tuple[list[int], list[str]]:
    return [item.id for item in items], [item.lease for item in items]


async def _held(conn: Connection, items: Sequence[Item]) -> set[int]:
    """Lock these rows and return which of them are still ours."""
    rows = await conn.fetch(WORK["hold"], *_columns(items))
    leases = {item.id: item.lease for item in items}
    return {row["id"] for row in rows if str(row["lease"]) == leases[row["id"]]}
