"""Keeps the last bound that is known to be complete, for readers that a transaction holds back."""

from __future__ import annotations

from typing import Final, get_args

from prometheus_client import CollectorRegistry, Gauge

from sagabus_orchestrator.audit.fence import SQL, Fence, Stream, is_settled, raise_fence
from sagabus_orchestrator.audit.seal import Sealer
from sagabus_runtime import Pulse
from sagabus_store import Connection, Database, now_ms

__all__ = ["Horizon", "held_gauge"]


def held_gauge(registry: CollectorRegistry) -> Gauge:
    """Make the gauge of a process: once, since a service may start more than once."""
    return Gauge(
        "sagabus_pages_held_seconds",
        "For how long a running transaction keeps pages of a stream from their newest rows",
        ("stream",),
        registry=registry,
    )


class Horizon:
    """Raises a fence per stream, notes it once it has settled, and raises the next.

    Any number of replicas may do so: a bound only grows. While one transaction that has written
    does not end, in whatever database of the server, the gauge grows.
    """

    INTERVAL_MS: Final = 2_000

    def __init__(self, database: Database, held: Gauge) -> None:
        self._database = database
        self._fences: dict[Stream, Fence] = {}
        self._held = held
        self._sealer = Sealer(database)

    async def run(self, pulse: Pulse) -> None:
        """Move on until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.move()
            pulse.beat()
            await pulse.pause(self.INTERVAL_MS)

    async def move(self) -> None:
        """Note what has settled since the last time, and seal what of it is the audit's."""
        settled: dict[Stream, int] = {}
        async with self._database.connection() as conn:
            for stream in get_args(Stream):
                settled[stream] = await self._move(conn, stream)
        await self._sealer.seal(settled["audit"])

    async def _move(self, conn: Connection, stream: Stream) -> int:
        fence = self._fences.get(stream) or await raise_fence(conn, stream)
        self._fences[stream] = fence
        if await is_settled(conn, fence):
            await conn.execute(SQL["settle"], stream, fence.seq)
            del self._fences[stream]
            self._held.labels(stream).set(0)
            return fence.seq
        self._held.labels(stream).set(max(await now_ms(conn) - fence.at_ms, 0) / 1000)
        return 0
