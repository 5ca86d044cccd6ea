"""A participant inside an existing service: its pool, its event loop, its life cycle."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Final

import asyncpg
from prometheus_client import CollectorRegistry

from sagabus_participant.assembly import Assembly, Extras, WorkSettings
from sagabus_participant.errors import ParticipantError
from sagabus_participant.registry import Participant
from sagabus_participant.telemetry import EVENT_EMBEDDED_CRASHED
from sagabus_runtime.health import Health
from sagabus_runtime.lifecycle import Loop
from sagabus_runtime.logs import get_logger
from sagabus_runtime.supervision import Supervisor
from sagabus_runtime.telemetry import Tracing
from sagabus_store import Database

__all__ = ["EmbeddedParticipant"]

CANCEL_MS: Final = 5_000


class EmbeddedParticipant:
    """Runs a participant as tasks of the running event loop.

    It installs no signal handlers, opens no port and migrates nothing: the host owns all that.
    The host's pool stays open. Readiness and metrics are in `health`; a loop that died of a
    programming error is logged, makes `health` unready, and is raised by `stop`.

        async with EmbeddedParticipant(inventory, settings, pool):
            ...  # the host's own life
    """

    def __init__(
        self,
        participant: Participant,
        settings: WorkSettings,
        pool: asyncpg.Pool[asyncpg.Record],
        extras: Extras | None = None,
        *,
        registry: CollectorRegistry | None = None,
    ) -> None:
        self.name = participant.name
        self.health = Health(registry or CollectorRegistry())
        self._settings = settings
        self._db = Database.over(pool)
        self._assembly = Assembly(participant, settings, self.health, extras or Extras())
        self._supervisor = Supervisor(self.health.registry)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Check the tables and begin to work; returns once the loops run.

        Raises `MigrationError` where `migrate` was not run, `StoreUnavailable` in an outage: then
        nothing runs and it can be started again. Starts once: make another one after a `stop`.
        """
        if self._tasks or self.health.stop.is_set():
            raise ParticipantError("started_twice", f"{self.name} runs, or ran, already")
        # The host's own provider, where it has set one, decides about sampling and export.
        loops = await self._assembly.loops(self._db, Tracing.of_host())
        self._tasks = [asyncio.create_task(self._run(loop), name=loop.name) for loop in loops]
        self.health.unready = None

    async def stop(self) -> None:
        """Finish what is in hand, commit, leave the group; what takes too long is cancelled.

        Safe to call twice. Raises the error of a loop that had crashed.
        """
        self.health.stop.set()
        self.health.unready = "stopping"
        tasks, self._tasks = self._tasks, []
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self._settings.stop_grace_ms / 1000)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=CANCEL_MS / 1000)
        await self._assembly.close()
        for task in tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def __aenter__(self) -> EmbeddedParticipant:
        """Start."""
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        """Stop."""
        await self.stop()

    async def _run(self, loop: Loop) -> None:
        try:
            await self._supervisor.supervise(loop, self.health.pulse(loop.name, loop.deadline_ms))
        except Exception as error:
            self.health.unready = f"{loop.name}: {type(error).__name__}"
            get_logger().exception(EVENT_EMBEDDED_CRASHED, loop=loop.name)
            raise
