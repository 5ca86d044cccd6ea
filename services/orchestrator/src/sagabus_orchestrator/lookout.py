"""What a replica looks for between batches: early answers that are left, signals of operations."""

from __future__ import annotations

from typing import Final

from sagabus_orchestrator import signals
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.recovery import SQL, RecoveryMode
from sagabus_runtime import Pulse
from sagabus_store import Database

__all__ = ["Lookout"]


class Lookout:
    """Keeps the metrics true that no batch of this replica can."""

    INTERVAL_MS: Final = 2_000

    def __init__(self, database: Database, events: OrchestratorEvents, mode: RecoveryMode) -> None:
        self._database = database
        self._events = events
        self._mode = mode

    async def run(self, pulse: Pulse) -> None:
        """Look until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.look()
            pulse.beat()
            await pulse.pause(self.INTERVAL_MS)

    async def look(self) -> None:
        """Show what waits, count what operations signalled."""
        async with self._database.transaction() as conn:
            early = await conn.fetchrow(SQL["count_early"])
            found = await signals.collect(conn)
        if early is not None:
            self._events.early(self._mode, early["waiting"], early["oldest_s"])
        self._events.signalled(found)
