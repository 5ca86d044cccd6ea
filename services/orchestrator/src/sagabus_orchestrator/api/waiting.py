"""Long polls: any number of requests wait behind one poller and one statement a round."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sagabus_core.vocabulary import Control, SagaStatus
from sagabus_runtime import Pulse
from sagabus_store import Database, Queries

__all__ = ["Standing", "StatusWatch"]

SQL = Queries("sagabus_orchestrator", "sql/queries.sql")


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a saga stands."""

    status: SagaStatus
    control: Control
    revision: int

    @property
    def is_settled(self) -> bool:
        """Whether nothing more happens by itself: ended, or waiting for an operator."""
        return self.status.is_terminal or self.status is SagaStatus.MANUAL_INTERVENTION


@dataclass(slots=True, eq=False)
class _Waiter:
    enough: Callable[[Standing], bool]
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class StatusWatch:
    """Wakes waiters once their saga stands where they wait for; looks only while somebody waits."""

    ROUND_MS: Final = 50
    PER_SAGA_MS: Final = 0.05
    """Added to a round per saga looked at: thousands of waiters must not load the database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiters: dict[str, set[_Waiter]] = {}
        self._wanted = asyncio.Event()
        self._stopping = False

    async def wait(
        self, saga_id: str, enough: Callable[[Standing], bool], timeout_s: float
    ) -> None:
        """Return when the saga stands so, was archived, the time is up or this replica stops.

        The caller looks again in every case: what is true then is for it to say.
        """
        if self._stopping:
            return
        waiter = _Waiter(enough)
        self._waiters.setdefault(saga_id, set()).add(waiter)
        self._wanted.set()
        try:
            async with asyncio.timeout(timeout_s):
                await waiter.woken.wait()
        except TimeoutError:
            return
        finally:
            self._leave(saga_id, waiter)

    async def run(self, pulse: Pulse) -> None:
        """Look until told to stop: the `run` of a supervised loop."""
        try:
            while not pulse.stopping:
                pulse.beat()
                if not self._waiters:
                    await self._somebody()
                    continue
                await self.look()
                await pulse.pause(self.ROUND_MS + self.PER_SAGA_MS * len(self._waiters))
        finally:
            self._stopping = pulse.stopping
            self._wake_all()

    async def look(self) -> None:
        """Look once where all awaited sagas stand, and wake whoever has waited for that."""
        wanted = list(self._waiters)
        async with self._database.connection() as conn:
            rows = await conn.fetch(SQL["standing"], wanted)
        found = {str(row["id"]): row for row in rows}
        for saga_id in wanted:
            row = found.get(saga_id)
            standing = _standing(row["status"], row["control"], row["revision"]) if row else None
            for waiter in self._waiters.get(saga_id, ()):
                if standing is None or waiter.enough(standing):
                    waiter.woken.set()

    async def _somebody(self) -> None:
        self._wanted.clear()
        try:
            async with asyncio.timeout(1.0):
                await self._wanted.wait()
        except TimeoutError:
            return

    def _leave(self, saga_id: str, waiter: _Waiter) -> None:
        waiting = self._waiters.get(saga_id, set())
        waiting.discard(waiter)
        if not waiting:
            self._waiters.pop(saga_id, None)

    def _wake_all(self) -> None:
        for waiting in self._waiters.values():
            for waiter in waiting:
                waiter.woken.set()


def _standing(status: str, control: str, revision: int) -> Standing:
    return Standing(SagaStatus(status), Control(control), revision)
