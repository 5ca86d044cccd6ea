"""Puts the relay together."""

from __future__ import annotations

from collections.abc import Sequence
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
from sagabus_relay.rest import Ringing
from sagabus_relay.rings import Rings
from sagabus_relay.slots import Slot
from sagabus_relay.table import OutboxTable
from sagabus_relay.worker import SlotWorker, WorkerPolicy
from sagabus_runtime import Health, Loop, new_registry
from sagabus_store import (
    QUEUE_PLANNER,
    Component,
    Database,
    DatabaseOptions,
    OutboxBell,
    migrate,
    require_current,
)

__all__ = ["COMPONENTS", "RelayService", "build", "outbox_table"]

COMPONENTS = (Component("relay", "sagabus_relay", "sql/migrations"),)
"""What the relay's own database consists of."""


def outbox_table(source: OutboxSource, pool_size: int) -> OutboxTable:
    """Return the outbox of `source`, not yet connected, with the settings that a queue needs."""
    options = DatabaseOptions(
        application_name=f"sagabus-relay/{source.name}",
        pool_size=pool_size,
        # A bitmap per row, to look up parked keys, takes longer than everything else together.
        server_settings={**QUEUE_PLANNER, "enable_bitmapscan": "off"},
    )
    return OutboxTable(source.name, Database(source.dsn.get_secret_value(), options))


class RelayService:
    """A relay process: leases, one worker per slot held, and a look at what waits."""

    def __init__(self, settings: RelaySettings) -> None:
        registry = new_registry()
        self.health = Health(registry)
        self._settings = settings
        self._events = RelayEvents(registry)
        self._own = Database(
            settings.postgres.get_secret_value(),
            DatabaseOptions(application_name="sagabus-relay", pool_size=2),
        )
        self._tables = {
            source.name: outbox_table(source, settings.slots[source.name] + 1)
            for source in settings.outboxes
        }
        self._rings: dict[str, Rings] = {}
        policy = LeasePolicy(
            settings.relay_lease_ms, settings.relay_lease_margin_ms, settings.tick_ms
        )
        store = LeaseStore(self._own, uuid4(), policy)
        keeper = SlotKeeper(store, policy, settings.slots, self._worker, self._events)
        watch = BacklogWatch(self._tables, keeper.owned, self._events)
        self.loops: Sequence[Loop] = (Loop("leases", keeper.run), Loop("backlog", watch.run))
        self.health.add_check("postgres", self._own.problem)
        self.health.add_check("slots", keeper.problem)

    async def start(self) -> None:
        """Connect to the relay's own database; each outbox is connected to by its workers.

        An outbox that is away keeps no other waiting. Raises `StoreUnavailable` (try again) and
        `MigrationError`.
        """
        if self._settings.migrate_on_start:
            await migrate(self._settings.postgres.get_secret_value(), COMPONENTS)
        await self._own.open()
        async with self._own.connection() as connection:
            await require_current(connection, COMPONENTS)

    async def stop(self) -> None:
        """Close all databases."""
        for table in self._tables.values():
            await table.close()
        await self._own.close()

    def _worker(self, slot: Slot, lease: Lease) -> SlotWorker:
        settings = self._settings
        options = PublisherOptions(
            transactional_id=f"{settings.topic_prefix}{slot.transactional_id}",
            transactions=settings.relay_delivery == "transactional",
        )
        connection = KafkaConnection.of(settings, f"sagabus-relay.{slot.outbox}.{slot.number}")
        limits = Limits(
            settings.relay_batch_rows, settings.relay_batch_bytes, settings.relay_record_bytes
        )
        gap_ms = settings.relay_gap_ms
        policy = WorkerPolicy(limits, PacePolicy(gap_ms, max(gap_ms, 1.0), settings.idle_ms))
        delivery = KafkaDelivery(connection, options, lease)
        table, ringing = self._tables[slot.outbox], self._ringing(slot)
        return SlotWorker(lease, table, delivery, policy, self._events, ringing)

    def _ringing(self, slot: Slot) -> Ringing:
        """Return a bell for the one slot of an outbox; several would take it from each other."""
        if not self._settings.relay_bell or slot.of > 1:
            return Ringing()
        (source,) = [s for s in self._settings.outboxes if s.name == slot.outbox]
        bell = OutboxBell(source.dsn.get_secret_value(), f"sagabus-bell/{slot.outbox}")
        return Ringing(bell, self._rings.setdefault(source.server, Rings()))


def build(settings: RelaySettings) -> RelayService:
    """Make every object; connects to nothing yet."""
    return RelayService(settings)
