"""How the card processor is put together: one HTTP server over one database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import uvicorn

from sagabus_core.errors import SagabusError
from sagabus_example_cards.config import CardsSettings
from sagabus_example_cards.http import HungUp, application
from sagabus_example_cards.ledger import Ledger
from sagabus_runtime.health import Health, Pulse
from sagabus_runtime.lifecycle import Loop
from sagabus_runtime.metrics import new_registry
from sagabus_store import Component, Database, DatabaseOptions, migrate

__all__ = ["TABLES", "CardsService", "build"]

TABLES: Final = Component("cards", "sagabus_example_cards", "migrations")


class _Server(uvicorn.Server):
    """A server that leaves the signals to the service around it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture nothing."""
        yield


class CardsService:
    """The processor as a service."""

    def __init__(self, settings: CardsSettings) -> None:
        self.health = Health(new_registry())
        self._settings = settings
        self._db: Database | None = None

    @property
    def loops(self) -> Sequence[Loop]:
        """The HTTP server."""
        return (Loop("http", self._serve),)

    async def start(self) -> None:
        """Bring the ledger's tables up to date and connect."""
        await self.stop()
        dsn = self._settings.postgres.get_secret_value()
        await migrate(dsn, [TABLES])
        self._db = Database(dsn, DatabaseOptions(application_name="sagabus-cards"))
        await self._db.open()
        self.health.add_check("postgres", self._db.problem)

    async def _serve(self, pulse: Pulse) -> None:
        if self._db is None:
            raise SagabusError("not_started", "the server runs after the start")
        settings = self._settings
        config = uvicorn.Config(
            application(Ledger(self._db)),
            settings.cards_host,
            settings.cards_port,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=5,
        )
        server = _Server(config)
        logging.getLogger("uvicorn.error").addFilter(HungUp())
        serving = asyncio.create_task(server.serve())
        try:
            while not pulse.stopping and not serving.done():
                pulse.beat()
                await pulse.pause(200)
        finally:
            server.should_exit = True
            await serving

    async def stop(self) -> None:
        """Close the database."""
        if self._db is not None:
            await self._db.close()
            self._db = None


def build(settings: CardsSettings) -> CardsService:
    """Return the service; nothing is connected yet."""
    return CardsService(settings)
