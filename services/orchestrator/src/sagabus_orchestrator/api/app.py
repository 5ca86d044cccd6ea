"""Puts the API together: its own process on the orchestrator's database."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AsyncExitStack
from typing import Final

from sagabus_bus import KafkaConnection, TopicAdmin
from sagabus_expressions import CelConditions
from sagabus_messages import Topics
from sagabus_orchestrator import start_requests
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.config import ApiSettings
from sagabus_orchestrator.api.factory import create_app
from sagabus_orchestrator.api.feed import Feed
from sagabus_orchestrator.api.identity import Authenticator, open_authenticator
from sagabus_orchestrator.api.limits import Crowd
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.server import HttpServer
from sagabus_orchestrator.api.starting import Starter
from sagabus_orchestrator.api.waiting import StatusWatch
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.audit import FactPages, Trail
from sagabus_orchestrator.bulk import Bulks
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.handler import Handler
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.queries import SagaReader
from sagabus_orchestrator.readers import Readers
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.registry import Registry
from sagabus_orchestrator.signatures import Signatures
from sagabus_orchestrator.switchboard import Switchboard
from sagabus_orchestrator.tenants import Tenants
from sagabus_orchestrator.why import Gatherer
from sagabus_orchestrator.why.kafka import KafkaBus
from sagabus_runtime import Health, Loop, Pulse, Tracing, new_registry
from sagabus_store import Database, DatabaseOptions, InboxWindow, migrate, require_current

__all__ = ["ApiService", "build"]

HOUR_MS: Final = 3_600_000


class ApiService:
    """A replica of the API; any number may run beside any number of orchestrators."""

    def __init__(self, settings: ApiSettings) -> None:
        registry = new_registry()
        self.health = Health(registry)
        self._settings = settings
        self._topics = Topics(settings.topic_prefix)
        self._window = InboxWindow(settings.inbox_days)
        self._signatures = Signatures.of(settings, registry)
        self._metrics = ApiMetrics(registry)
        self._tracing = Tracing.start("sagabus-api")
        self._events = OrchestratorEvents(registry, self._tracing)
        self._open = AsyncExitStack()
        self._loops: list[Loop] = []

    @property
    def loops(self) -> Sequence[Loop]:
        """Server, starts, long polls and the other loops; empty before `start`."""
        return self._loops

    async def start(self) -> None:
        """Connect, migrate, load the definitions, take the port; safe to call again."""
        await self._open.aclose()
        settings = self._settings
        dsn = settings.postgres.get_secret_value()
        if settings.migrate_on_start:
            await migrate(dsn, COMPONENTS)
        database = Database(
            dsn,
            DatabaseOptions(application_name="sagabus-api", pool_size=settings.postgres_pool_size),
        )
        self._open.push_async_callback(database.close)
        await database.open()
        async with database.connection() as conn:
            await require_current(conn, COMPONENTS)
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        self.health.add_check("postgres", database.problem)
        self.health.add_check("definitions", watcher.problem)
        authenticator = await self._open.enter_async_context(open_authenticator(settings, database))
        self._loops = self._assemble(database, watcher, authenticator)

    async def stop(self) -> None:
        """Close the database, give the port back, tell the last spans."""
        await self._open.aclose()
        await self._tracing.aclose()

    def _assemble(
        self, database: Database, watcher: CatalogWatcher, authenticator: Authenticator
    ) -> list[Loop]:
        settings = self._settings
        backend = self._backend(database, watcher, authenticator)
        app = Crowd(create_app(backend), settings.api_requests, self._metrics)
        server = HttpServer(app, settings.api_host, settings.api_port)
        server.listen()
        self._open.callback(server.close)

        async def maintain(pulse: Pulse) -> None:
            while not pulse.stopping:
                async with database.connection() as conn:
                    await start_requests.forget(conn, settings.idempotency_days)
                pulse.beat()
                await pulse.pause(HOUR_MS)

        return [
            Loop("http", server.run),
            Loop("starts", backend.starter.run),
            Loop("waits", backend.watch.run),
            Loop("feed", backend.feed.run),
            Loop("definitions", watcher.run),
            Loop("maintenance", maintain, deadline_ms=2 * HOUR_MS),
        ]

    def _backend(
        self, database: Database, watcher: CatalogWatcher, authenticator: Authenticator
    ) -> Backend:
        settings, topics, window = self._settings, self._topics, self._window
        mode, signatures = settings.recovery_mode, self._signatures
        handler = Handler(database, topics, watcher, window, self._events, mode)
        handler.signatures = signatures
        bus = KafkaBus(KafkaConnection.of(settings, "sagabus-api"))
        return Backend(
            database=database,
            watcher=watcher,
            authenticator=authenticator,
            trail=Trail(database),
            metrics=self._metrics,
            starter=Starter(database, handler, topics, window),
            reader=SagaReader(database),
            watch=StatusWatch(database),
            feed=Feed(database),
            operations=Operations(
                database,
                topics,
                watcher,
                manual_close_enabled=settings.manual_close_enabled,
                tracing=self._tracing,
                signer=signatures.signer,
            ),
            bulks=Bulks(database, watcher),
            switchboard=Switchboard(database),
            registry=Registry(database, CelConditions(), topics),
            tenants=Tenants(database),
            pages=FactPages(database),
            letters=lambda: DeadLetters(database, topics, watcher, window, mode, signatures),
            gatherer=lambda: Gatherer(database, watcher.current, Readers(topics), bus),
            missing_topics=self._missing_topics,
            stopping=self.health.stop,
            tracing=self._tracing,
        )

    async def _missing_topics(self, topics: Iterable[str]) -> Iterable[str]:
        wanted = list(topics)
        async with TopicAdmin(KafkaConnection.of(self._settings, "sagabus-api")) as admin:
            present = await admin.partition_counts(wanted)
        return [name for name in wanted if name not in present]


def build(settings: ApiSettings) -> ApiService:
    """Make every object; connects to nothing yet."""
    return ApiService(settings)
