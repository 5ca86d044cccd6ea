"""Outbox relay of sagabus: from every outbox table to Kafka."""

from sagabus_relay.app import COMPONENTS, build
from sagabus_relay.config import OutboxSource, RelaySettings
from sagabus_relay.parking import ParkedKey
from sagabus_relay.table import OutboxTable

__all__ = ["COMPONENTS", "OutboxSource", "OutboxTable", "ParkedKey", "RelaySettings", "build"]
