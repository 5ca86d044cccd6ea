"""What runs a participant wherever it lives: consumer, workers and housekeeping over a pool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import Field

from sagabus_bus import BatchSubscriber, BusMetrics, KafkaConnection, Subscription
from sagabus_bus.signatures import KeyRing, SignatureSettings, SigningSettings, signer_of
from sagabus_messages import Topics
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_participant.batches import CommandBatches
from sagabus_participant.callbacks import Callbacks
from sagabus_participant.registry import Participant
from sagabus_participant.retention import Retention, require_covers
from sagabus_participant.session import WORK
from sagabus_participant.shell import Shell
from sagabus_participant.telemetry import Meters
from sagabus_participant.workers import WorkerOptions, Workers
from sagabus_runtime.health import Health, Pulse
from sagabus_runtime.kafka_settings import KafkaSettings
from sagabus_runtime.lifecycle import Loop
from sagabus_runtime.telemetry import Tracing
from sagabus_store import SHARED, Component, Database, InboxWindow, inbox, require_current

__all__ = ["COMPONENT", "Assembly", "Extras", "Running", "WorkSettings"]

COMPONENT: Final = Component("participant", "sagabus_participant", "migrations")
"""The tables of the SDK; they stand beside a team's own in the participant's database."""

HOUSEKEEPING_MS: Final = 15_000
BACKLOG_BOUND: Final = 20_000


class WorkSettings(KafkaSettings, SignatureSettings, SigningSettings):
    """Settings of a participant, whoever owns its database connections."""

    inbox_days: int = Field(default=30, ge=1, le=365)
    """How long a repeat is recognised; must exceed topic retention plus redrive age."""
    journal_days: int = Field(default=400, ge=2, le=3650)
    """How long an activation is remembered after its last command; must exceed `inbox_days` and
    the longest life of a saga."""
    worker_concurrency: int = Field(default=32, ge=1, le=1000)
    """Most external calls in flight in one process."""
    worker_lease_ms: int = Field(default=5_000, ge=500)
    """After how long the work of a dead process is taken over."""


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


class Assembly:
    """Puts a participant together; connects to nothing by itself.

    Raises `SettingsError` where inbox or journal would forget too early.
    """

    def __init__(
        self, participant: Participant, settings: WorkSettings, health: Health, extras: Extras
    ) -> None:
        self._participant = participant
        self._settings = settings
        self._health = health
        self._extras = extras
        self._meters = Meters(health.registry)
        self._bus_metrics = BusMetrics(health.registry)
        self._window = InboxWindow(settings.inbox_days)
        self._window.require_covers(RETENTION_MS, DEAD_LETTER_RETENTION_MS)
        require_covers(settings.journal_days, settings.inbox_days)
        self._retention = Retention(settings.journal_days)
        self._signer = signer_of(settings)
        self._commands = KeyRing.of(settings, health.registry)

    @property
    def components(self) -> tuple[Component, ...]:
        """Every table line that must be there: the shared one, the SDK's, the team's."""
        return (SHARED, COMPONENT, *self._extras.components)

    async def loops(self, db: Database, tracing: Tracing | None = None) -> tuple[Loop, ...]:
        """Check that the tables of `db` are those of this version, and return what is to run.

        Raises `MigrationError` where a migration is missing.
        """
        async with db.connection() as conn:
            await require_current(conn, list(self.components))
        await inbox.maintain(db, self._window)
        self._health.add_check("postgres", db.problem)
        topics = Topics(self._settings.topic_prefix)
        shell = Shell(
            self._participant,
            db,
            topics,
            self._meters,
            self._window,
            tracing,
            self._retention,
            self._signer,
            self._commands,
        )
        running = Running(db, Callbacks(shell), self._health)
        return (
            Loop("commands", _Consumer(shell, self._settings, self._bus_metrics).run),
            Loop("work", Workers(shell, self._worker_options()).run),
            Loop("housekeeping", _House(shell).run),
            *self._extras.loops(running),
        )

    async def close(self) -> None:
        """Close what the team asked to be closed."""
        if self._extras.close is not None:
            await self._extras.close()

    def _worker_options(self) -> WorkerOptions:
        return WorkerOptions(self._settings.worker_concurrency, self._settings.worker_lease_ms)


@dataclass(frozen=True, slots=True)
class _Consumer:
    """Reads the participant's command topic."""

    shell: Shell
    settings: WorkSettings
    metrics: BusMetrics

    async def run(self, pulse: Pulse) -> None:
        name = self.shell.participant.name
        connection = KafkaConnection.of(self.settings, f"sagabus-{name}")
        # Environments may share a broker: their members must not meet in one group.
        group = f"{self.settings.topic_prefix}{self.shell.consumer}"
        subscription = Subscription(group, (self.shell.topics.command(name),))
        batches = CommandBatches(self.shell, on_progress=pulse.beat)
        await BatchSubscriber(connection, subscription, batches, metrics=self.metrics).run(pulse)


@dataclass(frozen=True, slots=True)
class _House:
    """Creates the inbox days to come, drops those that are over, forgets, measures the backlog."""

    shell: Shell

    async def run(self, pulse: Pulse) -> None:
        db, meters = self.shell.db, self.shell.meters
        while not pulse.stopping:
            await inbox.maintain(db, self.shell.window)
            meters.forgotten.inc(await self.shell.retention.round(db))
            async with db.connection() as conn:
                row = await conn.fetchrow(WORK["backlog"], BACKLOG_BOUND)
            if row is not None:
                meters.backlog.set(row["waiting"])
                meters.behind.set(row["behind_ms"] / 1000)
            pulse.beat()
            await pulse.pause(HOUSEKEEPING_MS)
