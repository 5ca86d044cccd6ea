"""Relays one slot while its lease lasts: fetch, plan, deliver, settle, and again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from sagabus_bus import BusError, ProducerFenced
from sagabus_relay.delivery import Delivery
from sagabus_relay.events import RelayEvents
from sagabus_relay.holds import TopicHolds
from sagabus_relay.lease import Lease, monotonic_ms
from sagabus_relay.pace import Pace, PacePolicy
from sagabus_relay.plan import Limits, Round, Settlement, plan, settle
from sagabus_relay.rest import Look, Rest, Ringing, pause
from sagabus_relay.table import Fetch, OutboxTable
from sagabus_runtime import BackOff, BackOffPolicy, failpoints
from sagabus_runtime.errors import is_retryable
from sagabus_store import StoreError

__all__ = ["SlotWorker", "WorkerPolicy"]

SHARES = 8
"""A shard fills at most this part of a round's bytes: many large rows wait in the database."""


@dataclass(frozen=True, slots=True)
class WorkerPolicy:
    """Bounds and waits of one slot."""

    limits: Limits
    pace: PacePolicy
    outage: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(50, 2_000))
    hold_first_ms: float = 500
    hold_max_ms: float = 5_000


class SlotWorker:
    """The one task that publishes the rows of a slot.

    Whatever fails, the rows are still in the table, and the next round begins at the oldest.
    """

    def __init__(
        self,
        lease: Lease,
        table: OutboxTable,
        delivery: Delivery,
        policy: WorkerPolicy,
        events: RelayEvents,
        ringing: Ringing | None = None,
    ) -> None:
        self.slot = lease.slot
        self.lease = lease
        self.trouble: str | None = None
        """Why the slot is not moving at the moment."""
        self._table = table
        self._delivery = delivery
        self._policy = policy
        self._events = events
        self._clock = monotonic_ms
        self._stop = asyncio.Event()
        self._rest = Rest(Pace(policy.pace), ringing or Ringing(), self._stop)
        self._holds = TopicHolds(policy.hold_first_ms, policy.hold_max_ms)
        self._back_off = BackOff(policy.outage)
        self._turn = 0
        self._commit_ms: float | None = None

    def stop(self) -> None:
        """Ask the worker to return after the round in hand."""
        self._stop.set()
        self._rest.wake()

    async def run(self) -> None:
        """Relay until asked to stop or until the lease ends; raises only what no wait can mend."""
        try:
            while self._at_work():
                await self._relay_safely()
            await self._delivery.close()
        finally:
            await self._rest.close()
            await self._delivery.abandon()

    async def _relay_safely(self) -> None:
        try:
            await self._relay()
        except ProducerFenced as error:
            # Somebody drew a newer epoch. Drawing another here would fence the rightful owner:
            # only a lease that the database renews gives the right to try again.
            self.lease.end()
            await self._sit_out(f"{type(error).__name__}: {error}")
        except Exception as error:
            # Whatever one outbox's database says is no reason to stop relaying the others. What
            # Kafka refuses (a password, an ACL) people mend while we hold, not ready: an exit
            # would only take the slots that still work with it, again and again.
            if not (is_retryable(error) or isinstance(error, StoreError | BusError)):
                raise
            await self._sit_out(f"{type(error).__name__}: {error}")

    def _at_work(self) -> bool:
        return not self._stop.is_set() and self.lease.allows()

    async def _relay(self) -> None:
        await self._table.open()
        await self._delivery.open()
        while self._at_work():
            started = self._clock()
            held = self._holds.held(started)
            limits = self._policy.limits
            self._rest.before()
            rows = await self._table.fetch(
                Fetch(self._shards(), held, limits.rows, limits.batch_bytes // SHARES)
            )
            fetched = self._clock()
            await failpoints.reach("relay.after-fetch")
            round_ = plan(rows, limits, held)
            if round_.empty and not held:
                self._recovered()  # an outbox that came back empty is no trouble any more
            self._commit_ms = None
            gone = 0 if round_.empty else await self._carry_out(round_, started)
            look = Look(len(rows), gone, limits.rows, fetched - started, self._commit_ms)
            await self._rest.after(look, may_sleep=not held)

    async def _carry_out(self, round_: Round, started: float) -> int:
        """Deliver and settle; returns how many rows left the hot table."""
        outcomes = await self._delivery.deliver(round_.send) if round_.send else []
        await failpoints.reach("relay.after-deliver")
        result = settle(round_, outcomes)
        if result.moves and not self.lease.allows():
            return 0  # parking is the owner's decision; what was delivered is only delivered again
        settling = self._clock()
        await self._table.settle(result)
        self._commit_ms = self._clock() - settling
        await failpoints.reach("relay.after-settle")
        self._events.round_done(self.slot, result, self._clock() - started)
        self._note_topics(result)
        if result.trouble is not None:
            await self._sit_out(result.trouble)
        else:
            self._recovered()
        return result.gone

    def _note_topics(self, result: Settlement) -> None:
        before = self._holds.count
        self._holds.opened(result.open_topics)
        self._holds.close(result.closed_topics, self._clock())
        if result.closed_topics or self._holds.count != before:
            self._events.held(self.slot, result.closed_topics, self._holds.count)

    def _recovered(self) -> None:
        self.trouble = None
        self._back_off.reset()

    def _shards(self) -> Sequence[int]:
        """Return the shards of the slot, each time beginning with the next one: none waits long."""
        shards = self.slot.shards
        self._turn = (self._turn + 1) % len(shards)
        return shards[self._turn :] + shards[: self._turn]

    async def _sit_out(self, reason: str) -> None:
        delay_ms = self._back_off.next_ms()
        self.trouble = reason
        self._events.trouble(self.slot, reason, delay_ms)
        await pause(self._stop, delay_ms)
