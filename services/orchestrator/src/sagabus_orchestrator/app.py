"""Puts the orchestrator together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from sagabus_bus import BatchHandler, BatchSubscriber, BusMetrics, KafkaConnection, Subscription
from sagabus_expressions import CelConditions
from sagabus_messages import Topics
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_orchestrator.api.identity import KeyRights
from sagabus_orchestrator.audit.horizon import Horizon, held_gauge
from sagabus_orchestrator.bulk.worker import BulkWorker
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.census import Census, CensusGauges
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.handler import Handler, Sweeper
from sagabus_orchestrator.letter_box import LetterBox, letter_topics
from sagabus_orchestrator.lookout import Lookout
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.releaser import Releaser
from sagabus_orchestrator.signatures import Signatures
from sagabus_orchestrator.upkeep.archive import Archive, ArchivePolicy
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_orchestrator.upkeep.maintenance import HOUR_MS, Maintenance
from sagabus_orchestrator.upkeep.reconciler import Reconciler, ReconcilerPolicy
from sagabus_runtime import Health, Loop, Pulse, Tracing, new_registry
from sagabus_store import (
    SHARED,
    Component,
    Database,
    DatabaseOptions,
    InboxWindow,
    migrate,
    require_current,
)

__all__ = ["COMPONENTS", "OrchestratorService", "build"]

COMPONENTS = (
    SHARED,
    Component("orchestrator", "sagabus_orchestrator", "sql/migrations"),
    Component("upkeep", "sagabus_orchestrator", "sql/upkeep"),
    Component("dead-letters", "sagabus_orchestrator", "sql/letters"),
    Component("api", "sagabus_orchestrator", "sql/api"),
    Component("identity", "sagabus_orchestrator", "sql/identity"),
    Component("audit", "sagabus_orchestrator", "sql/audit"),
    Component("limits", "sagabus_orchestrator", "sql/limits"),
    Component("bulk", "sagabus_orchestrator", "sql/bulk"),
    Component("holds", "sagabus_orchestrator", "sql/holds"),
)
"""What the orchestrator's database consists of, in the order in which it is migrated."""


class _UntilChange:
    """The sign of life of the consumer, which also ends when the list of topics changes."""

    def __init__(self, pulse: Pulse, watcher: CatalogWatcher, participants: frozenset[str]) -> None:
        self._pulse = pulse
        self._watcher = watcher
        self._participants = participants

    @property
    def stopping(self) -> bool:
        changed = self._watcher.current.participants != self._participants
        return changed or self._pulse.stopping

    def beat(self) -> None:
        self._pulse.beat()

    def excuse(self, trouble: str) -> None:
        self._pulse.excuse(trouble)

    async def pause(self, ms: float) -> bool:
        return await self._pulse.pause(ms) or self.stopping


class OrchestratorService:
    """A replica of the orchestrator: consumes, decides, sweeps; any number may run."""

    def __init__(self, settings: OrchestratorSettings) -> None:
        registry = new_registry()
        self.health = Health(registry)
        self._settings = settings
        self._topics = Topics(settings.topic_prefix)
        self._window = InboxWindow(settings.inbox_days)
        self._window.require_covers(RETENTION_MS, DEAD_LETTER_RETENTION_MS)
        self._signatures = Signatures.of(settings, registry)
        self._tracing = Tracing.start("sagabus-orchestrator")
        self._events = OrchestratorEvents(registry, self._tracing)
        self._upkeep_events = UpkeepEvents(registry)
        self._pages_held = held_gauge(registry)
        self._bus_metrics = BusMetrics(registry)
        self._census_gauges = CensusGauges(registry)
        self._open = AsyncExitStack()
        self._loops: list[Loop] = []

    @property
    def loops(self) -> Sequence[Loop]:
        """Consumers, sweep, reconciler, archive and the other loops; empty before `start`."""
        return self._loops

    async def start(self) -> None:
        """Connect, migrate, load the definitions; safe to call again after a failure."""
        await self._open.aclose()
        settings = self._settings
        dsn = settings.postgres.get_secret_value()
        if settings.migrate_on_start:
            await migrate(dsn, COMPONENTS)
        database = Database(
            dsn,
            DatabaseOptions(
                application_name="sagabus-orchestrator",
                pool_size=settings.postgres_pool_size,
                # Batches name their rows by key. While the table is young the planner would rather
                # read all of it than look up 500 of its sagas, each time, at ten times the price.
                server_settings={"enable_seqscan": "off"},
            ),
        )
        self._open.push_async_callback(database.close)
        await database.open()
        async with database.connection() as conn:
            await require_current(conn, COMPONENTS)
        await Maintenance(database, self._window, _nothing).prepare()
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        self.health.add_check("postgres", database.problem)
        self.health.add_check("definitions", watcher.problem)
        self._loops = self._assemble(database, watcher)

    async def stop(self) -> None:
        """Close the database and tell the last spans."""
        await self._open.aclose()
        await self._tracing.aclose()

    def _assemble(self, database: Database, watcher: CatalogWatcher) -> list[Loop]:
        settings = self._settings
        mode = settings.recovery_mode
        handler = Handler(database, self._topics, watcher, self._window, self._events, mode)
        handler.signatures = self._signatures
        lookout = Lookout(database, self._events, mode)
        census = Census(database, self._census_gauges, self._upkeep_events)
        sweeper = Sweeper(
            database,
            handler,
            self._events,
            interval_ms=settings.sweep_interval_ms,
            grace_ms=settings.sweep_grace_ms,
        )
        operations = self._operations(database, watcher)
        box = LetterBox(database, self._topics, settings.inbox_days, self._events)
        maintenance = Maintenance(database, self._window, box.forget)
        consume = self._consumer(watcher, self._subscription, handler)
        keep_letters = self._consumer(watcher, self._letters, box)

        return [
            Loop("consumer", consume),
            Loop("dead-letters", keep_letters),
            Loop("dead-letter-count", box.count),
            Loop("sweep", sweeper.run),
            Loop("reconciler", self._reconciler(database, handler).run),
            Loop("archive", self._archive(database).run),
            Loop("definitions", watcher.run),
            Loop("lookout", lookout.run),
            Loop("census", census.run),
            Loop("horizon", Horizon(database, self._pages_held).run),
            Loop(
                "bulk",
                BulkWorker(database, operations, watcher, KeyRights(database), self._tracing).run,
            ),
            Loop("holds", Releaser(database, operations).run),
            Loop("maintenance", maintenance.run, deadline_ms=2 * HOUR_MS),
        ]

    def _operations(self, database: Database, watcher: CatalogWatcher) -> Operations:
        signer, tracing = self._signatures.signer, self._tracing
        return Operations(database, self._topics, watcher, tracing=tracing, signer=signer)

    def _reconciler(self, database: Database, handler: Handler) -> Reconciler:
        settings = self._settings
        policy = ReconcilerPolicy(
            page=settings.reconcile_page,
            round_ms=settings.reconcile_interval_ms,
            quiet_ms=settings.reconcile_quiet_ms,
        )
        return Reconciler(database, handler, self._upkeep_events, policy)

    def _archive(self, database: Database) -> Archive:
        settings = self._settings
        policy = ArchivePolicy(
            settings.archive_after_days, settings.archive_batch, settings.archive_interval_ms
        )
        return Archive(database, self._upkeep_events, policy)

    def _consumer(
        self,
        watcher: CatalogWatcher,
        subscription: Callable[[frozenset[str]], Subscription],
        handler: BatchHandler,
    ) -> Callable[[Pulse], Awaitable[None]]:
        """Return a loop that subscribes anew whenever other participants are concerned."""
        connection = KafkaConnection.of(self._settings, "sagabus-orchestrator")

        async def run(pulse: Pulse) -> None:
            while not pulse.stopping:
                participants = watcher.current.participants
                subscriber = BatchSubscriber(
                    connection, subscription(participants), handler, metrics=self._bus_metrics
                )
                await subscriber.run(_UntilChange(pulse, watcher, participants))

        return run

    def _letters(self, participants: frozenset[str]) -> Subscription:
        topics = letter_topics(self._topics, sorted(participants))
        # Nobody waits for a letter: long fetches spare the broker.
        return Subscription(
            f"{self._settings.group}.dead-letters", topics, max_records=100, fetch_wait_ms=500
        )

    def _subscription(self, participants: frozenset[str]) -> Subscription:
        topics = self._topics
        results = [topics.result(participant) for participant in sorted(participants)]
        return Subscription(
            group=self._settings.group,
            topics=(topics.start, topics.wakeup, *results),
            max_records=self._settings.batch,
        )


async def _nothing() -> None:
    """Forget nothing: at a start only what is missing counts."""


def build(settings: OrchestratorSettings) -> OrchestratorService:
    """Make every object; connects to nothing yet."""
    return OrchestratorService(settings)
