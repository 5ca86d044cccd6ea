"""The loop that leases due commands and keeps the leases of what is in hand."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from operator import itemgetter
from uuid import uuid4

from sagabus_bus import record_fields
from sagabus_participant.orders import unpack_record
from sagabus_participant.session import WORK
from sagabus_participant.shell import Shell
from sagabus_participant.telemetry import EVENT_WORK_FAILED
from sagabus_participant.work import Item, WorkBench
from sagabus_runtime.backoff import BackOff
from sagabus_runtime.errors import is_retryable
from sagabus_runtime.health import Pulse
from sagabus_runtime.logs import get_logger
from sagabus_store import StoreUnavailable

__all__ = ["WorkerOptions", "Workers"]


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Limits of the workers of one process.

    `concurrency` bounds the calls in flight; the work of a dead process is taken over after
    `lease_ms`. Work that this process stored is begun at once; what others stored and cannot
    begin themselves is noticed within `poll_ms` beside own calls, within `idle_poll_ms` without.
    """

    concurrency: int = 32
    lease_ms: int = 10_000
    poll_ms: int = 100
    idle_poll_ms: int = 500


class Workers:
    """Runs commands of the work table, each under a lease, until asked to stop."""

    def __init__(self, shell: Shell, options: WorkerOptions | None = None) -> None:
        self._shell = shell
        self._options = options or WorkerOptions()
        self._bench = WorkBench(shell)

    async def run(self, pulse: Pulse) -> None:
        """Work until `pulse.stopping`, then finish the calls in hand and return.

        Calls that are cancelled with the loop stay in doubt; the next owner of their lease finds
        out about them.
        """
        crew = _Crew(self._shell, self._options, self._bench)
        back_off = BackOff()
        try:
            while not pulse.stopping or crew.busy:
                try:
                    await self._round(crew, pulse)
                except StoreUnavailable as error:
                    # An outage of the database is no reason to drop the calls in flight.
                    pulse.excuse(str(error))
                    await crew.wait_for_one(back_off.next_ms())
                else:
                    back_off.reset()
        finally:
            await crew.dismiss()

    async def _round(self, crew: _Crew, pulse: Pulse) -> None:
        self._shell.work_came.clear()
        if pulse.stopping:
            await crew.wait_for_one(self._options.lease_ms / 3)
        elif not await crew.claim():
            await crew.wait(pulse)
        await crew.renew()
        pulse.beat()


class _Crew:
    """The calls in flight of one run of the loop."""

    def __init__(self, shell: Shell, options: WorkerOptions, bench: WorkBench) -> None:
        self._shell = shell
        self._options = options
        self._bench = bench
        self._lease = str(uuid4())
        self._tasks: dict[asyncio.Task[None], int] = {}
        self._renewed_at = time.monotonic()
        shell.meters.in_hand.set_function(lambda: len(self._tasks))

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    async def claim(self) -> int:
        """Lease as much as there are free hands; return how much it was."""
        free = self._options.concurrency - len(self._tasks)
        if free <= 0:
            return 0
        async with self._shell.db.connection() as conn:
            rows = await conn.fetch(WORK["claim"], free, self._lease, self._options.lease_ms)
        for row in sorted(rows, key=itemgetter("id")):
            item = Item(row["id"], self._lease, row["record"], row["tries"])
            task = asyncio.create_task(self._work(item), name=f"work-{item.id}")
            self._tasks[task] = item.id
            task.add_done_callback(self._done)
        return len(rows)

    async def _work(self, item: Item) -> None:
        try:
            await self._bench.work(item)
        except Exception as error:  # noqa: BLE001  (the supervised loop of one item)
            # The row stays and its lease runs out: tried again, by us or by somebody else.
            get_logger().warning(
                EVENT_WORK_FAILED,
                item=item.id,
                **record_fields(unpack_record(item.record).headers),
                error=repr(error)[:300],
                exc_info=None if is_retryable(error) else error,
            )

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.pop(task, None)
        # A free hand, and perhaps the next command of this activation.
        self._shell.work_came.set()

    async def wait(self, pulse: Pulse) -> None:
        """Wait for work, a free hand, the poll interval or the stop."""
        poll_ms = await self._poll_ms()
        came = asyncio.create_task(self._shell.work_came.wait())
        pause = asyncio.create_task(pulse.pause(poll_ms))
        try:
            await asyncio.wait({came, pause}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            came.cancel()
            pause.cancel()

    async def _poll_ms(self) -> float:
        """Return how long to look for nothing: not beyond the next time at which a try is due."""
        poll_ms, idle_ms = self._options.poll_ms, self._options.idle_poll_ms
        if self._tasks:
            return poll_ms
        async with self._shell.db.connection() as conn:
            due_in_ms = await conn.fetchval(WORK["next_due"])
        return idle_ms if due_in_ms is None else min(max(due_in_ms, poll_ms), idle_ms)

    async def wait_for_one(self, ms: float) -> None:
        """Wait until a call in flight ends, or this long."""
        if self._tasks:
            limit_s = ms / 1000
            await asyncio.wait(
                set(self._tasks), timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
        else:
            await asyncio.sleep(ms / 1000)

    async def renew(self) -> None:
        """Keep the leases of everything in hand, three times per lease."""
        elapsed_ms = (time.monotonic() - self._renewed_at) * 1000
        if not self._tasks or elapsed_ms < self._options.lease_ms / 3:
            return
        self._renewed_at = time.monotonic()
        async with self._shell.db.connection() as conn:
            await conn.execute(
                WORK["renew"], list(self._tasks.values()), self._lease, self._options.lease_ms
            )

    async def dismiss(self) -> None:
        """Cancel what is still in flight."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._bench.aclose()
