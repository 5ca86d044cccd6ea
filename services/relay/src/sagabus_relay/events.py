"""What the relay tells people: log events and metrics, with every name in one place."""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from sagabus_bus import record_fields
from sagabus_messages import unpack_headers
from sagabus_relay.plan import Settlement
from sagabus_relay.slots import Slot
from sagabus_relay.table import Backlog
from sagabus_runtime import get_logger

__all__ = ["RelayEvents"]

EVENT_SLOT_TAKEN: Final = "relay.slot_taken"
EVENT_SLOT_LOST: Final = "relay.slot_lost"
EVENT_SLOT_RELEASED: Final = "relay.slot_released"
EVENT_SLOTS_DIFFER: Final = "relay.slots_differ"
EVENT_PARKED: Final = "relay.key_parked"
EVENT_TOPIC_HELD: Final = "relay.topic_held"
EVENT_TROUBLE: Final = "relay.trouble"
EVENT_LEASES_TROUBLE: Final = "relay.leases_trouble"

METRIC_ROWS: Final = "sagabus_relay_rows"
METRIC_ROUNDS: Final = "sagabus_relay_rounds"
METRIC_ROUND_SECONDS: Final = "sagabus_relay_round_seconds"
METRIC_PARKED: Final = "sagabus_relay_parked"
METRIC_TROUBLES: Final = "sagabus_relay_troubles"
METRIC_SLOTS: Final = "sagabus_relay_slots"
METRIC_WAITING: Final = "sagabus_relay_waiting_rows"
METRIC_OLDEST: Final = "sagabus_relay_oldest_row_seconds"
METRIC_PARKED_KEYS: Final = "sagabus_relay_parked_keys"
METRIC_HELD_TOPICS: Final = "sagabus_relay_held_topics"

_BUCKETS: Final = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)


class RelayEvents:
    """Logs and metrics of one relay process."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._log = get_logger()
        by_outbox = ["outbox"]
        self._rows = Counter(METRIC_ROWS, "Rows delivered", by_outbox, registry=registry)
        self._rounds = Counter(METRIC_ROUNDS, "Rounds with work", by_outbox, registry=registry)
        self._seconds = Histogram(
            METRIC_ROUND_SECONDS, "Fetch, publish and settle of one round", by_outbox,
            buckets=_BUCKETS, registry=registry,
        )  # fmt: skip
        self._parked = Counter(
            METRIC_PARKED, "Keys parked", ["outbox", "reason"], registry=registry
        )
        self._troubles = Counter(
            METRIC_TROUBLES, "Rounds that failed", by_outbox, registry=registry
        )
        self._slots = Gauge(METRIC_SLOTS, "Slots owned by this replica", registry=registry)
        self._waiting = Gauge(
            METRIC_WAITING, "Rows waiting in the slots of this replica", by_outbox,
            registry=registry,
        )  # fmt: skip
        self._oldest = Gauge(METRIC_OLDEST, "Age of the oldest row", by_outbox, registry=registry)
        self._parked_keys = Gauge(
            METRIC_PARKED_KEYS, "Keys parked at present", by_outbox, registry=registry
        )
        self._held = Gauge(METRIC_HELD_TOPICS, "Topics held", ["outbox", "slot"], registry=registry)

    def taken(self, slot: Slot) -> None:
        """Note a slot that this replica owns from now on."""
        self._slots.inc()
        self._log.info(EVENT_SLOT_TAKEN, outbox=slot.outbox, slot=slot.number)

    def gone(self, slot: Slot, lost: bool) -> None:  # noqa: FBT001  (one of two events, no option)
        """Note a slot that was lost, or given back."""
        self._slots.dec()
        self._held.labels(slot.outbox, slot.number).set(0)
        event = EVENT_SLOT_LOST if lost else EVENT_SLOT_RELEASED
        self._log.info(event, outbox=slot.outbox, slot=slot.number)

    def slots_differ(self, outbox: str, configured: int, registered: int) -> None:
        """Note that the number of slots in the database stands, not the configured one."""
        self._log.warning(
            EVENT_SLOTS_DIFFER, outbox=outbox, configured=configured, registered=registered
        )

    def round_done(self, slot: Slot, settlement: Settlement, took_ms: float) -> None:
        """Note a round whose outcome is durable."""
        self._rounds.labels(slot.outbox).inc()
        self._rows.labels(slot.outbox).inc(len(settlement.delete))
        self._seconds.labels(slot.outbox).observe(took_ms / 1000)
        for parking in settlement.park:
            self._parked.labels(slot.outbox, parking.reason).inc()
            self._log.error(
                EVENT_PARKED,
                outbox=slot.outbox,
                row=parking.row.id,
                topic=parking.row.topic,
                key=(parking.row.key or b"").decode(errors="replace"),
                reason=parking.reason,
                detail=parking.detail,
                **record_fields(unpack_headers(parking.row.headers)),
            )

    def held(self, slot: Slot, topics: frozenset[str], total: int) -> None:
        """Note topics that cannot be written, and how many are held in all."""
        self._held.labels(slot.outbox, slot.number).set(total)
        for topic in sorted(topics):
            self._log.warning(EVENT_TOPIC_HELD, outbox=slot.outbox, topic=topic)

    def trouble(self, slot: Slot, reason: str, delay_ms: int) -> None:
        """Note a round that failed; its rows are still there."""
        self._troubles.labels(slot.outbox).inc()
        self._log.warning(
            EVENT_TROUBLE, outbox=slot.outbox, slot=slot.number, reason=reason, delay_ms=delay_ms
        )

    def leases_trouble(self, reason: str) -> None:
        """Note that leases could not be renewed; they run out by themselves."""
        self._log.warning(EVENT_LEASES_TROUBLE, reason=reason)

    def backlog(self, outbox: str, backlog: Backlog) -> None:
        """Publish how much waits in the slots of this replica."""
        self._waiting.labels(outbox).set(backlog.rows)
        self._oldest.labels(outbox).set(backlog.oldest_ms / 1000)
        self._parked_keys.labels(outbox).set(backlog.parked_keys)
