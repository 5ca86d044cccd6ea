"""Puts the relay together."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from uuid import uuid4

from sagabus_bus import KafkaConnection, PublisherOptions
from sagabus_relay.backlog import BacklogWatch
from sagabus_relay.config import OutboxSource, RelaySettings
from sagabus_relay.delivery import KafkaDelivery
from sagabus_relay.events import RelayEvents
from sagabus_relay.keeper import SlotKeeper
from sagabus_relay.lease import Lease
from sagabus_relay.leases import LeasePolicy, LeaseStore
from sagabus_relay.pace import PacePolicy
from sagabus_relay.plan import Limits
from sagabus_relay.slots import Slot
from sagabus_relay.table import OutboxTable
from sagabus_relay.worker import SlotWorker, WorkerPolicy
from sagabus_runtime import Health, Loop, new_registry
from sagabus_store import QUEUE_PLANNER, Component, Database, DatabaseOptions, require_current

__all__ = ["COMPONENTS", "RelayService", "build", "open_outbox"]

COMPONENTS = (Component("relay", "sagabus_relay", "sql/migrations"),)
"""What the relay's own database consists of."""


async def open_outbox(source: OutboxSource, pool_size: int) -> Database:
    """Connect to the database of an outbox, with the planner settings that a queue needs."""
    return await Database.connect(
        source.dsn.get_secret_value(),
        DatabaseOptions(
            application_name=f"sagabus-relay/{source.name}",
            pool_size=pool_size,
            server_settings=QUEUE_PLANNER,
        ),
    )


class RelayService:
    """A relay process: leases, one worker per slot held, and a look at what waits."""

    def __init__(self, settings: RelaySettings) -> None:
        registry = new_registry()
        self.health = Health(registry)
        self._settings = settings
        self._events = RelayEvents(registry)
        self._open = AsyncExitStack()
        self._tables: dict[str, OutboxTable] = {}
        self._loops: list[Loop] = []

    @property
    def loops(self) -> Sequence[Loop]:
        """Leases (with their workers) and backlog; empty before `start`."""
        return self._loops

    async def start(self) -> None:
        """Connect to all databases; safe to call again after a failure."""
        await self.stop()
        settings = self._settings
        own = await Database.connect(
            settings.postgres.get_secret_value(),
            DatabaseOptions(application_name="sagabus-relay", pool_size=2),
        )
        self._open.push_async_callback(own.close)
        async with own.connection() as connection:
            await require_current(connection, COMPONENTS)
        for source in settings.outboxes:
            database = await open_outbox(source, settings.slots[source.name] + 1)
            self._open.push_async_callback(database.close)
            self._tables[source.name] = OutboxTable(source.name, database)
        self.health.add_check("postgres", own.problem)
        self._loops = self._assemble(own)

    async def stop(self) -> None:
        """Close all databases."""
        await self._open.aclose()
        self._tables.clear()

    def _assemble(self, own: Database) -> list[Loop]:
        settings = self._settings
        policy = LeasePolicy(
            settings.relay_lease_ms, settings.relay_lease_margin_ms, settings.relay_lease_ms // 5
        )
        keeper = SlotKeeper(
            LeaseStore(own, uuid4(), policy), policy, settings.slots, self._worker, self._events
        )
        self.health.add_check("slots", keeper.problem)
        watch = BacklogWatch(self._tables, keeper.owned, self._events)
        return [Loop("leases", keeper.run), Loop("backlog", watch.run)]

    def _worker(self, slot: Slot, lease: Lease) -> SlotWorker:
        settings = self._settings
        transactional = settings.relay_delivery == "transactional"
        options = PublisherOptions(
            transactional_id=f"{settings.topic_prefix}{slot.transactional_id}"
            if transactional
            else None,
        )
        connection = KafkaConnection.of(settings, f"sagabus-relay.{slot.outbox}.{slot.number}")
        policy = WorkerPolicy(
            Limits(
                settings.relay_batch_rows, settings.relay_batch_bytes, settings.relay_record_bytes
            ),
            PacePolicy(settings.relay_gap_ms, settings.relay_gap_ms or 1.0, settings.relay_idle_ms),
        )
        delivery = KafkaDelivery(connection, options, lease)
        return SlotWorker(
            slot, lease, self._tables[slot.outbox], delivery, policy, self._events
        )


def build(settings: RelaySettings) -> RelayService:
    """Make every object; connects to nothing yet."""
    return RelayService(settings)
