"""The hourly round: partitions that the next days need are made, what is too old is forgotten."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final, TypeAlias

from sagabus_runtime import Pulse
from sagabus_store import Database, InboxWindow, Queries, inbox

__all__ = ["HOUR_MS", "Maintenance"]

SQL = Queries("sagabus_orchestrator", "sql/sagas.sql")
HOUR_MS: Final = 3_600_000
JOURNAL_AHEAD: Final = timedelta(days=60)
"""Partitions of the journal are months: for so long maintenance may fail before facts must wait."""

Clock: TypeAlias = Callable[[], Awaitable[int]]
Forget: TypeAlias = Callable[[], Awaitable[None]]


class Maintenance:
    """Any number of replicas may run it; `clock` gives epoch milliseconds, the database's if None.

    `forget` removes what else is too old, once the partitions are there.
    """

    def __init__(
        self, database: Database, window: InboxWindow, forget: Forget, clock: Clock | None = None
    ) -> None:
        self._database = database
        self._window = window
        self._forget = forget
        self._clock = clock or database.now_ms

    async def run(self, pulse: Pulse) -> None:
        """Do a round every hour until told to stop: the `run` of a supervised loop."""
        while not pulse.stopping:
            await self.round()
            pulse.beat()
            await pulse.pause(HOUR_MS)

    async def round(self) -> None:
        """Make what is missing, then drop and forget; again does nothing. Raises outages."""
        await self.prepare()
        await self._forget()

    async def prepare(self) -> None:
        """Make the partitions that the next days need, drop what the inbox may forget."""
        now_ms = await self._clock()
        today = inbox.day_of(now_ms)
        # The journal first: a partition of the inbox that cannot be dropped must not cost facts.
        async with self._database.connection() as conn:
            await conn.fetchval(SQL["create_journal_partitions"], today, today + JOURNAL_AHEAD)
        await inbox.maintain(self._database, self._window, now_ms)
