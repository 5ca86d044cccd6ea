"""What a slot's worker does between two looks: it goes on, waits, or sleeps until it is rung for.

Asleep means: every commit that adds rows rings (see the store's `OutboxBell`), so that an idle
outbox costs one look per `SLEEP_MS`, and a new row is seen at once. Under sustained work the bell
is let go: writers that commit at a high rate must not pay for a relay that looks anyway. It is also
let go, for a while, where the bells of a server together slow down its commits (see `rings`).
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Protocol

from sagabus_relay.lease import Clock, monotonic_ms
from sagabus_relay.pace import Pace
from sagabus_relay.rings import QUIET_MS, Rings
from sagabus_runtime import BackOff, BackOffPolicy
from sagabus_store import StoreError

__all__ = ["Bell", "Look", "NoBell", "Rest", "Ringing", "pause"]

BUSY_ROUNDS: Final = 20
"""So many rounds in a row that moved rows are sustained work."""
SLEEP_MS: Final = 1_000.0
"""Longest sleep: the second line behind a bell that broke unnoticed."""
RETRY_MS: Final = 1_000.0
"""Least time between two tries to have a bell that somebody else has."""
OUTAGE: Final = BackOffPolicy(1_000, 60_000)
"""Between two tries that failed: each may hold up the slot, and take a place at a full server."""


class Bell(Protocol):
    """Rings once rows were added; see `sagabus_store.OutboxBell` for the promises."""

    @property
    def held(self) -> bool:
        """Whether writers ring."""

    @property
    def rung(self) -> int:
        """How many commits have rung so far."""

    def clear(self) -> None:
        """Forget what rang before the look that follows."""

    async def hold(self) -> bool:
        """Ask writers to ring."""

    async def let_go(self) -> None:
        """Tell writers not to ring."""

    async def wait(self, ms: float) -> bool:
        """Return True once it rang, False after `ms`."""

    def wake(self) -> None:
        """End the present wait."""

    async def close(self) -> None:
        """Let go and disconnect."""


class NoBell:
    """The bell of an outbox that several slots share, or whose server no session may listen to."""

    held = False
    rung = 0

    def clear(self) -> None:
        """Do nothing."""

    async def hold(self) -> bool:
        """Return False: nobody rings."""
        return False

    async def let_go(self) -> None:
        """Do nothing."""

    async def wait(self, ms: float) -> bool:
        """Return False after no time: there is nothing to wait for."""
        del ms
        return False

    def wake(self) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Ringing:
    """The bell of one outbox, and what all bells of its server do to it."""

    bell: Bell = field(default_factory=NoBell)
    server: Rings = field(default_factory=Rings)


@dataclass(frozen=True, slots=True)
class Look:
    """What a look came to: rows that were there, rows that left, and how long the look took.

    `commit_ms`: how long removing the rows took, to its commit; None without any.
    """

    found: int
    gone: int
    limit: int
    took_ms: float
    commit_ms: float | None = None


class Rest:
    """The waits of one worker. The trouble of a bell is no trouble of the slot: it looks again."""

    def __init__(
        self, pace: Pace, ringing: Ringing, stop: asyncio.Event, clock: Clock = monotonic_ms
    ) -> None:
        self._pace = pace
        self._bell = ringing.bell
        self._server = ringing.server
        self._rung = 0
        self._stop = stop
        self._clock = clock
        self._busy = 0
        self._overslept = False
        self._try_at_ms = float("-inf")
        self._back_off = BackOff(OUTAGE)

    def before(self) -> None:
        """Call it right before each look: what rings from here on is looked for again."""
        self._bell.clear()

    def wake(self) -> None:
        """End a sleep."""
        self._bell.wake()

    async def after(self, look: Look, *, may_sleep: bool) -> None:
        """Return when to look again; not `may_sleep`: something waits for a time, not for rows."""
        overslept, self._overslept = self._overslept, False
        wait_ms = self._pace.next_ms(look.gone, look.limit, look.took_ms)
        await self._heed_the_server(look)
        if look.gone or look.found or not may_sleep:
            await self._work(look, overslept=overslept)
            await pause(self._stop, wait_ms)
        elif self._bell.held:
            self._busy = 0
            self._overslept = not await self._bell.wait(SLEEP_MS)
        elif not await self._hold():
            await pause(self._stop, wait_ms)

    async def close(self) -> None:
        """Give the bell back."""
        await self._bell.close()

    async def _work(self, look: Look, *, overslept: bool) -> None:
        self._busy = self._busy + 1 if look.gone else 0
        if overslept and look.gone:
            await self._bell.close()  # rows came and nobody rang: listen anew
        elif self._busy >= BUSY_ROUNDS:
            await self._let_go()

    async def _heed_the_server(self, look: Look) -> None:
        """Poll for a while where commits wait for each other because they ring, here or beside."""
        rung, self._rung = self._bell.rung - self._rung, self._bell.rung
        self._server.note(rung, look.commit_ms)
        if rung and self._bell.held and self._server.too_many:
            await self._let_go()
            self._try_at_ms = self._clock() + QUIET_MS

    async def _let_go(self) -> None:
        try:
            await self._bell.let_go()
        except StoreError:
            await self._bell.close()

    async def _hold(self) -> bool:
        """Try to have the bell; if so the next look follows at once, and only then comes sleep."""
        if self._clock() < self._try_at_ms:
            return False
        try:
            held = await self._bell.hold()
        except StoreError:
            await self._bell.close()
            self._try_at_ms = self._clock() + self._back_off.next_ms()
            return False
        self._back_off.reset()
        if not held:
            self._try_at_ms = self._clock() + RETRY_MS
        return held


async def pause(stop: asyncio.Event, ms: float) -> None:
    """Return after `ms`, or at once when asked to stop."""
    if ms <= 0:
        await asyncio.sleep(0)
        return
    try:
        async with asyncio.timeout(ms / 1000):
            await stop.wait()
    except TimeoutError:
        return
