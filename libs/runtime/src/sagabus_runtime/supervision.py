"""Keeps one loop of a service running: back-off after outages, restart after a stall."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from prometheus_client import CollectorRegistry, Counter

from sagabus_runtime.backoff import BackOff, BackOffPolicy
from sagabus_runtime.errors import LoopFault, LoopStalled, is_retryable
from sagabus_runtime.health import Pulse
from sagabus_runtime.logs import get_logger
from sagabus_runtime.names import (
    EVENT_LOOP_RESTARTING,
    FIELD_DELAY_MS,
    FIELD_LOOP,
    FIELD_REASON,
    METRIC_LOOP_RESTARTS,
)

__all__ = ["Loop", "Supervisor"]

CANCEL_GRACE_S: Final = 5.0
LONGEST_WAIT_MS: Final = 3_000
"""After an outage every loop looks again within this time: what is due must not wait for us."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One endless activity of a service.

    `run` opens what it needs, beats after each round and at least once per
    `deadline_ms`, returns when the pulse says
    `stopping`, and may be cancelled and run again at any await.
    """

    name: str
    run: Callable[[Pulse], Awaitable[None]]
    deadline_ms: int = 60_000
    back_off: BackOffPolicy = field(default_factory=lambda: BackOffPolicy(max_ms=LONGEST_WAIT_MS))


class Supervisor:
    """Runs loops until they are asked to stop; raises only what no retry can mend."""

    def __init__(
        self, registry: CollectorRegistry, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._restarts = Counter(
            METRIC_LOOP_RESTARTS, "Restarts of a supervised loop", ["loop"], registry=registry
        )

    async def supervise(self, loop: Loop, pulse: Pulse) -> None:
        """Run `loop` again after every retryable error until `pulse.stopping`.

        Raises the first error that is not retryable; `LoopFault` if the loop just returns.
        The back-off begins anew once a run has lasted as long as its longest wait.
        """
        back_off = BackOff(loop.back_off)
        while not pulse.stopping:
            started = self._clock()
            try:
                await _run_once(loop, pulse)
            except Exception as error:
                if not is_retryable(error):
                    raise
                if (self._clock() - started) * 1000 >= loop.back_off.max_ms:
                    back_off.reset()
                await self._wait_before_restart(loop, pulse, back_off, error)

    async def _wait_before_restart(
        self, loop: Loop, pulse: Pulse, back_off: BackOff, error: Exception
    ) -> None:
        if pulse.stopping:
            return
        delay_ms = back_off.next_ms()
        reason = f"{type(error).__name__}: {error}"
        self._restarts.labels(loop.name).inc()
        get_logger().warning(
            EVENT_LOOP_RESTARTING,
            attempts=back_off.attempts,
            **{FIELD_LOOP: loop.name, FIELD_DELAY_MS: delay_ms, FIELD_REASON: reason},
        )
        pulse.excuse(reason)
        await pulse.pause(delay_ms)
        # The wait itself must not count as silence, however long the policy makes it.
        pulse.excuse(reason)


async def _run_once(loop: Loop, pulse: Pulse) -> None:
    """Run the loop to its end; raises its error, or `LoopStalled` after a missed deadline."""
    task = asyncio.ensure_future(loop.run(pulse))
    try:
        while not task.done() and not pulse.stalled:
            remaining_s = (pulse.deadline_ms - pulse.age_ms) / 1000
            await asyncio.wait({task}, timeout=max(remaining_s, 0.001))
    finally:
        await _end(loop, task)
    if not task.cancelled():
        task.result()
    elif pulse.stalled:
        raise LoopStalled("loop_stalled", f"{loop.name}: no sign of life for {pulse.age_ms} ms")
    if not pulse.stopping:
        raise LoopFault("loop_ended", f"{loop.name} returned although nobody asked it to stop")


async def _end(loop: Loop, task: asyncio.Future[None]) -> None:
    if task.done():
        return
    task.cancel()
    await asyncio.wait({task}, timeout=CANCEL_GRACE_S)
    if not task.done():
        # A second run beside one that does not let go would do its work twice.
        raise LoopFault("loop_uncancellable", f"{loop.name} ignores its cancellation")
