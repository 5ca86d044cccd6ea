"""The journal of some activations under lock, in one transaction: read once, written once.

Whatever the size of a batch, it costs the same number of statements. Lock order: activations by
id, then the inbox, then the outbox keys; a worker's own row comes between the last two.
"""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Sequence
from typing import Final

from sagabus_core import ids
from sagabus_core.vocabulary import Phase
from sagabus_messages import OutboxRow, Result, Signer, Stamp, Topics, encode, source_of
from sagabus_participant.journal import Activation, EffectState, Reply
from sagabus_participant.orders import Order, pack_record
from sagabus_participant.rows import (
    Remembered,
    Row,
    SavedEffect,
    answer_columns,
    effect_columns,
    read_answer,
    read_effect,
    success_columns,
)
from sagabus_participant.telemetry import Tally
from sagabus_store import Connection, Queries, outbox

__all__ = ["JOURNAL", "WORK", "Session"]

JOURNAL: Final = Queries("sagabus_participant", "sql/journal.sql")
WORK: Final = Queries("sagabus_participant", "sql/work.sql")
MAX_DETAIL: Final = 500


class Session:
    """What is known about the activations of some orders; `flush` makes the changes durable."""

    def __init__(
        self, conn: Connection, topics: Topics, participant: str, signer: Signer | None = None
    ) -> None:
        self.conn = conn
        self._signer = signer
        self._result_topic = topics.result(participant)
        self._source = source_of(participant)
        self._opened_ms = 0
        self._opened_at = time.monotonic()
        self._activations: dict[str, Activation] = {}
        self._loaded: dict[str, Activation] = {}
        self._places: dict[str, Order] = {}
        self._past: dict[str, Remembered] = {}
        self._new_answers: dict[str, Remembered] = {}
        self._intents: dict[str, bytes] = {}
        self._queued: set[str] = set()
        self._enqueued: list[tuple[Order, int]] = []
        self._results: list[OutboxRow] = []
        self.tally: Tally = Counts()

    @property
    def now_ms(self) -> int:
        """The database clock, read after locking."""
        return self._opened_ms + int((time.monotonic() - self._opened_at) * 1000)

    async def lock(self, orders: Sequence[Order]) -> None:
        """Lock the activations of these orders and load what is remembered about them."""
        self._places = {order.execute_id: order for order in orders}
        places = list(self._places.values())
        rows = await self.conn.fetch(
            JOURNAL["lock_activations"],
            [order.execute_id for order in places],
            [order.command.saga_id for order in places],
            [order.command.step for order in places],
        )
        await self._take(orders, rows)

    async def lock_known(self, orders: Sequence[Order], wait_ms: int | None = None) -> None:
        """Lock as `lock` does, for less, activations that have been locked once before.

        With `wait_ms` this transaction waits so long at most for any lock, and fails then.
        """
        self._places = {order.execute_id: order for order in orders}
        rows = await self.conn.fetch(JOURNAL["lock_known"], list(self._places), wait_ms)
        if len(rows) < len(self._places):
            await self.lock(orders)
        else:
            await self._take(orders, rows)

    async def _take(self, orders: Sequence[Order], rows: Sequence[Row]) -> None:
        self._opened_ms = max((int(row["now_ms"]) for row in rows), default=0)
        self._opened_at = time.monotonic()
        self._loaded = {str(row["effect_id"]): Activation(read_effect(row)) for row in rows}
        new = {str(row["effect_id"]) for row in rows if row["is_new"]}
        await self._load_past([order for order in orders if order.execute_id not in new])
        self._activations = dict(self._loaded)

    async def _load_past(self, orders: Sequence[Order]) -> None:
        if not orders:
            return
        await self._load_undo_effects(orders)
        command_ids = [order.ask.command_id for order in orders]
        for row in await self.conn.fetch(JOURNAL["load_past"], command_ids):
            command_id = str(row["command_id"])
            if row["ordinal"] is not None:
                self._past[command_id] = read_answer(row)
            if row["is_queued"]:
                self._queued.add(command_id)

    async def _load_undo_effects(self, orders: Sequence[Order]) -> None:
        undoing = {
            o.compensate_id: o.execute_id for o in orders if o.ask.about is not Phase.EXECUTE
        }
        if not undoing:
            return
        for row in await self.conn.fetch(JOURNAL["load_effects"], list(undoing)):
            execute_id = undoing[str(row["effect_id"])]
            loaded = self._loaded[execute_id]
            self._loaded[execute_id] = loaded.replacing(Phase.COMPENSATE, read_effect(row))

    def activation(self, order: Order) -> Activation:
        """Return the activation as this session has it now."""
        return self._activations[order.execute_id]

    def past(self, order: Order) -> Reply | None:
        """Return the remembered answer to this very command."""
        found = self._past.get(order.ask.command_id)
        return found.reply if found else None

    def is_queued(self, order: Order) -> bool:
        """Whether a worker has this command already."""
        return order.ask.command_id in self._queued

    def put(self, order: Order, activation: Activation) -> None:
        """Keep a new state of the order's activation."""
        self._activations[order.execute_id] = activation
        effect = activation.effect(order.ask.about)
        mine = effect.intent_command_id == order.ask.command_id
        if mine and effect.state is EffectState.INTENT:
            self._intents[self._effect_id(order, order.ask.about)] = pack_record(order.record)

    def answer(self, order: Order, reply: Reply) -> None:
        """Answer the order; the same answer again is the same event again."""
        command_id = order.ask.command_id
        past = self._past.get(command_id)
        given = Remembered(reply, past.ordinal + 1 if past else 1, self.now_ms)
        if past is not None and past.reply == reply:
            given = past
        elif not reply.final:
            self._past[command_id] = self._new_answers[command_id] = given
        self._results.append(self._encoded(order, given))

    def enqueue(self, order: Order, due_at_ms: int) -> None:
        """Hand the order over to the workers."""
        if order.ask.command_id not in self._queued:
            self._queued.add(order.ask.command_id)
            self._enqueued.append((order, due_at_ms))

    def count(self, what: str, *labels: str) -> None:
        """Note something for `Meters.add`, which is told after the commit."""
        self.tally[(what, *labels)] += 1

    @property
    def has_enqueued(self) -> bool:
        """Whether a worker should look at once."""
        return bool(self._enqueued)

    async def flush(self) -> None:
        """Write everything that changed; the caller commits."""
        effects = [saved for order in self._places.values() for saved in self._changed(order)]
        successes = [saved for saved in effects if saved.is_plain_success]
        if successes:
            await self.conn.execute(JOURNAL["save_successes"], *success_columns(successes))
        if len(successes) < len(effects):
            others = [saved for saved in effects if not saved.is_plain_success]
            await self.conn.execute(JOURNAL["save_effects"], *effect_columns(others))
        if self._new_answers:
            await self.conn.execute(JOURNAL["save_answers"], *answer_columns(self._new_answers))
        if self._enqueued:
            await self.conn.execute(WORK["enqueue"], *_work_columns(self._enqueued))
        if self._results:
            await outbox.append_locked(self.conn, self._results)

    def _changed(self, order: Order) -> list[SavedEffect]:
        before, after = self._loaded[order.execute_id], self._activations[order.execute_id]
        if before is after:
            return []
        return [
            SavedEffect(
                self._effect_id(order, about),
                order.execute_id,
                order.command.saga_id,
                order.command.step,
                after.effect(about),
                self._intents.get(self._effect_id(order, about)),
            )
            for about in (Phase.EXECUTE, Phase.COMPENSATE)
            if before.effect(about) is not after.effect(about)
            and before.effect(about) != after.effect(about)
        ]

    @staticmethod
    def _effect_id(order: Order, about: Phase) -> str:
        return order.compensate_id if about is Phase.COMPENSATE else order.execute_id

    def _encoded(self, order: Order, given: Remembered) -> OutboxRow:
        command, reply, meta = order.command, given.reply, order.meta
        fields = command.__dict__  # half the price of thirteen attributes of a model
        identity = {name: fields[name] for name in _IDENTITY}
        result = Result(
            **identity,
            event_id=ids.result_event_id(command.command_id, given.ordinal),
            status=reply.status,
            terminal_status=reply.terminal_status,
            reason_code=reply.reason.code if reply.reason else None,
            reason_detail=reply.reason.detail[:MAX_DETAIL] or None if reply.reason else None,
            output=reply.output,
            occurred_at_ms=given.answered_at_ms,
        )
        stamp = Stamp(self._source, given.answered_at_ms, meta.traceparent, meta.tracestate)
        row = encode(result, self._result_topic, stamp)
        return row if self._signer is None else self._signer.sign(row)


_IDENTITY: Final = (
    "saga_id",
    "tenant",
    "workflow",
    "business_key",
    "definition_version",
    "definition_digest",
    "step",
    "activation",
    "phase",
    "target",
    "attempt",
    "effect_id",
    "command_id",
)


def _work_columns(enqueued: Sequence[tuple[Order, int]]) -> list[list[object]]:
    return [
        [order.ask.command_id for order, _ in enqueued],
        [order.execute_id for order, _ in enqueued],
        [int(order.overtakes) for order, _ in enqueued],
        [pack_record(order.record) for order, _ in enqueued],
        [due_at_ms for _, due_at_ms in enqueued],
        [order.ask.expires_at_ms for order, _ in enqueued],
    ]
