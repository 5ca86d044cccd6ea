"""A participant as a process: consumer, workers and housekeeping under one life cycle."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from pydantic import Field

from sagabus_bus import BatchSubscriber, BusMetrics, KafkaConnection, Subscription
from sagabus_messages import Topics
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_participant.batches import CommandBatches
from sagabus_participant.callbacks import Callbacks
from sagabus_participant.errors import ParticipantError
from sagabus_participant.registry import Participant
from sagabus_participant.session import WORK
from sagabus_participant.shell import Shell
from sagabus_participant.telemetry import Meters
from sagabus_participant.workers import WorkerOptions, Workers
from sagabus_runtime.health import Health, Pulse
from sagabus_runtime.lifecycle import Loop
from sagabus_runtime.settings import KafkaSettings, PostgresSettings
from sagabus_store import (
    SHARED,
    Component,
    Database,
    DatabaseOptions,
    InboxWindow,
    inbox,
    migrate,
    require_current,
)

__all__ = ["COMPONENT", "Extras", "ParticipantService", "ParticipantSettings", "Running"]

COMPONENT: Final = Component("participant", "sagabus_participant", "migrations")
"""The tables of the SDK; they stand beside a team's own in the participant's database."""

HOUSEKEEPING_MS: Final = 15_000


class ParticipantSettings(KafkaSettings, PostgresSettings):
    """Settings of every participant process."""

    inbox_days: int = Field(default=30, ge=1, le=365)
    """How long a repeat is recognised; must exceed topic retention plus redrive age."""
    worker_concurrency: int = Field(default=32, ge=1, le=1000)
    """Most external calls in flight in one process."""
    worker_lease_ms: int = Field(default=5_000, ge=500)
    """After how long the work of a dead process is taken over."""
    migrate_on_start: bool = True
    """Whether the process brings its tables up to date itself; off where a job does that."""


@dataclass(frozen=True, slots=True)
class Running:
    """What exists once a participant has started: for loops of a team's own."""

    db: Database
    callbacks: Callbacks
    health: Health


@dataclass(frozen=True, slots=True)
class Extras:
    """What a team adds: its tables, its loops, what it wants closed at the end."""

    components: tuple[Component, ...] = ()
    loops: Callable[[Running], Sequence[Loop]] = lambda _running: ()
    close: Callable[[], Awaitable[None]] | None = None


class ParticipantService:
    """The `Service` of a participant: what `build(settings)` returns."""

    def __init__(
        self, participant: Participant, settings: ParticipantSettings, extras: Extras | None = None
    ) -> None:
        self.name = participant.name
        self.health = Health(CollectorRegistry())
        self._participant = participant
        self._settings = settings
        self._extras = extras or Extras()
        self._meters = Meters(self.health.registry)
        self._bus_metrics = BusMetrics(self.health.registry)
        self._window = InboxWindow(settings.inbox_days)
        self._window.require_covers(RETENTION_MS, DEAD_LETTER_RETENTION_MS)
        self._db: Database | None = None
        self._loops: tuple[Loop, ...] = ()

    @property
    def loops(self) -> Sequence[Loop]:
        """Consumer, workers, housekeeping, and the team's own; known once started."""
        return self._loops

    async def start(self) -> None:
        """Connect to Postgres, bring the tables up to date, prepare the loops."""
        await self.stop_database()
        dsn = self._settings.postgres.get_secret_value()
        components = [SHARED, COMPONENT, *self._extras.components]
        if self._settings.migrate_on_start:
            await migrate(dsn, components)
        options = DatabaseOptions(
            application_name=f"sagabus-{self.name}", pool_size=self._settings.postgres_pool_size
        )
        db = self._db = Database(dsn, options)
        await db.open()
        async with db.connection() as conn:
            await require_current(conn, components)
        await inbox.maintain(db, self._window)
        self.health.add_check("postgres", db.problem)
        self._loops = self._prepare(db)

    def _prepare(self, db: Database) -> tuple[Loop, ...]:
        topics = Topics(self._settings.topic_prefix)
        shell = Shell(self._participant, db, topics, self._meters, self._window)
        connection = KafkaConnection.of(self._settings, f"sagabus-{self.name}")
        # Environments may share a broker: their members must not meet in one group.
        group = f"{self._settings.topic_prefix}{shell.consumer}"
        subscription = Subscription(group, (topics.command(self.name),))
        subscriber = BatchSubscriber(
            connection, subscription, CommandBatches(shell), metrics=self._bus_metrics
        )
        options = WorkerOptions(self._settings.worker_concurrency, self._settings.worker_lease_ms)
        workers = Workers(shell, options)
        running = Running(db, Callbacks(shell), self.health)
        return (
            Loop("commands", subscriber.run),
            Loop("work", workers.run),
            Loop("housekeeping", self._keep_house),
            *self._extras.loops(running),
        )

    async def _keep_house(self, pulse: Pulse) -> None:
        """Create the inbox days to come, drop those that are over, measure the backlog."""
        if self._db is None:
            raise ParticipantError("not_started", "housekeeping runs after the start")
        while not pulse.stopping:
            await inbox.maintain(self._db, self._window)
            async with self._db.connection() as conn:
                row = await conn.fetchrow(WORK["backlog"])
            self._meters.backlog.set(row["waiting"] if row else 0)
            pulse.beat()
            await pulse.pause(HOUSEKEEPING_MS)

    async def stop_database(self) -> None:
        """Close the pool, where there is one."""
        if self._db is not None:
            await self._db.close()
            self._db = None

    async def stop(self) -> None:
        """Release everything; safe after a start that failed half-way."""
        if self._extras.close is not None:
            await self._extras.close()
        await self.stop_database()
