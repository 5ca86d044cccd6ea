"""Keeps the leases of this replica and runs one worker per slot that it holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sagabus_relay.events import RelayEvents
from sagabus_relay.lease import Clock, Lease, monotonic_ms
from sagabus_relay.leases import LeasePolicy, LeaseStore
from sagabus_relay.slots import Slot
from sagabus_relay.worker import SlotWorker
from sagabus_runtime import Pulse
from sagabus_runtime.errors import is_retryable

__all__ = ["SlotKeeper", "WorkerFactory"]

WorkerFactory: TypeAlias = Callable[[Slot, Lease], SlotWorker]

# Shorter than a lease: nothing is renewed while a slot is given back.
STOP_GRACE_S = 1.0
END_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class _Post:
    """A slot that is held, with the task that works on it."""

    lease: Lease
    worker: SlotWorker
    task: asyncio.Task[None]


class SlotKeeper:
    """Renews, claims and releases leases; starts and ends workers accordingly.

    While the lease database is away nothing is renewed: every worker ends by itself, on its own
    clock, before the lease can pass to another replica.
    """

    def __init__(
        self,
        store: LeaseStore,
        policy: LeasePolicy,
        outboxes: Mapping[str, int],
        workers: WorkerFactory,
        events: RelayEvents,
        clock: Clock = monotonic_ms,
    ) -> None:
        self._store = store
        self._policy = policy
        self._outboxes = dict(outboxes)
        self._workers = workers
        self._events = events
        self._clock = clock
        self._posts: dict[Slot, _Post] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._trouble: str | None = "no leases yet"

    def owned(self) -> list[Slot]:
        """Return the slots that this replica works on, sorted."""
        return sorted(self._posts)

    async def problem(self) -> str | None:
        """Return why this replica does not relay everything it should; a readiness check."""
        if self._trouble:
            return self._trouble
        stuck = [f"{s.outbox}/{s.number}: {p.worker.trouble}" for s, p in self._posts.items()
                 if p.worker.trouble]  # fmt: skip
        return "; ".join(sorted(stuck)) or None

    async def run(self, pulse: Pulse) -> None:
        """Keep leases until `pulse.stopping`; then finish the rounds in hand and give all back."""
        slots = await self._register()
        try:
            while not pulse.stopping:
                await self._turn_safely(slots, pulse)
                await pulse.pause(self._policy.tick_ms)
            await self._retire(self.owned())
            await self._store.leave()
        finally:
            self._drop(list(self._posts), lost=True)
            if self._ending:
                await asyncio.wait(self._ending, timeout=END_GRACE_S)

    async def _register(self) -> dict[str, int]:
        registered = await self._store.register(self._outboxes)
        for name, configured in self._outboxes.items():
            if registered[name] != configured:
                self._events.slots_differ(name, configured, registered[name])
        return registered

    async def _turn_safely(self, slots: Mapping[str, int], pulse: Pulse) -> None:
        try:
            await self._turn(slots)
        except Exception as error:
            if not is_retryable(error):
                raise
            self._trouble = f"{type(error).__name__}: {error}"
            self._events.leases_trouble(self._trouble)
            pulse.excuse(self._trouble)
        else:
            self._trouble = None
            pulse.beat()

    async def _turn(self, slots: Mapping[str, int]) -> None:
        asked_at_ms = self._clock()
        held, surplus = await self._store.turn(slots)
        for slot, post in self._posts.items():
            if slot in held:
                post.lease.extend(asked_at_ms, self._policy.usable_ms)
            else:
                post.lease.end()
        self._drop([slot for slot in self._posts if slot not in held], lost=True)
        self._bury_the_dead()
        for slot in sorted(held - self._posts.keys()):
            self._post(slot, asked_at_ms)
        if surplus:
            await self._retire(self.owned()[-surplus:])

    def _post(self, slot: Slot, asked_at_ms: float) -> None:
        lease = Lease(slot, self._clock)
        lease.extend(asked_at_ms, self._policy.usable_ms)
        worker = self._workers(slot, lease)
        task = asyncio.create_task(worker.run(), name=f"relay {slot.outbox}/{slot.number}")
        self._posts[slot] = _Post(lease, worker, task)
        self._events.taken(slot)

    def _bury_the_dead(self) -> None:
        """Remove workers whose lease ran out during an outage; raise what ended one otherwise."""
        ended = [slot for slot, post in self._posts.items() if post.task.done()]
        errors = [self._posts[slot].task.exception() for slot in ended]
        self._drop(ended, lost=True)
        for error in errors:
            if error is not None:
                raise error

    async def _retire(self, slots: Iterable[Slot]) -> None:
        """Let the workers of these slots finish their round, then give the slots back."""
        leaving = list(slots)
        for slot in leaving:
            self._posts[slot].worker.stop()
        tasks = [self._posts[slot].task for slot in leaving]
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_GRACE_S)
        self._drop(leaving, lost=False)
        if leaving:
            await self._store.release(leaving)

    def _drop(self, slots: Iterable[Slot], *, lost: bool) -> None:
        """End workers; closing their connections may take a while and holds up nothing."""
        for slot in list(slots):
            post = self._posts.pop(slot)
            post.lease.end()
            self._events.gone(slot, lost)
            if not post.task.done():
                post.task.cancel()
                self._ending.add(post.task)
                post.task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._events.leases_trouble(f"while ending: {task.exception()!r}")
