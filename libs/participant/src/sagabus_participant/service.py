"""A participant as a process of its own: what `run_service` runs."""

from __future__ import annotations

from collections.abc import Sequence

from sagabus_participant.assembly import COMPONENT, Assembly, Extras, Running, WorkSettings
from sagabus_participant.registry import Participant
from sagabus_runtime.health import Health
from sagabus_runtime.lifecycle import Loop
from sagabus_runtime.metrics import new_registry
from sagabus_runtime.settings import PostgresSettings
from sagabus_runtime.telemetry import Tracing
from sagabus_store import Database, DatabaseOptions, migrate

__all__ = ["COMPONENT", "Extras", "ParticipantService", "ParticipantSettings", "Running"]


class ParticipantSettings(WorkSettings, PostgresSettings):
    """Settings of every participant process."""

    migrate_on_start: bool = True
    """Whether the process brings its tables up to date itself; off where a job does that."""


class ParticipantService:
    """The `Service` of a participant: what `build(settings)` returns."""

    def __init__(
        self, participant: Participant, settings: ParticipantSettings, extras: Extras | None = None
    ) -> None:
        self.name = participant.name
        self.health = Health(new_registry())
        self._settings = settings
        self._assembly = Assembly(participant, settings, self.health, extras or Extras())
        self._db: Database | None = None
        self._tracing: Tracing | None = None
        self._loops: tuple[Loop, ...] = ()

    @property
    def loops(self) -> Sequence[Loop]:
        """Consumer, workers, housekeeping, and the team's own; known once started."""
        return self._loops

    async def start(self) -> None:
        """Connect to Postgres, bring the tables up to date, prepare the loops."""
        await self._release()
        settings = self._settings
        dsn = settings.postgres.get_secret_value()
        if settings.migrate_on_start:
            await migrate(dsn, list(self._assembly.components))
        options = DatabaseOptions(
            application_name=f"sagabus-{self.name}", pool_size=settings.postgres_pool_size
        )
        self._db = Database(dsn, options)
        await self._db.open()
        self._tracing = Tracing.start(self.name)
        self._loops = await self._assembly.loops(self._db, self._tracing)

    async def stop(self) -> None:
        """Release everything; safe after a start that failed half-way."""
        await self._assembly.close()
        await self._release()

    async def _release(self) -> None:
        if self._tracing is not None:
            await self._tracing.aclose()
            self._tracing = None
        if self._db is not None:
            await self._db.close()
            self._db = None
