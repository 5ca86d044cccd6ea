"""How the inventory participant is put together."""

from __future__ import annotations

from typing import Final

from sagabus_example_inventory.config import InventorySettings
from sagabus_example_inventory.handlers import inventory
from sagabus_participant import Extras, ParticipantService
from sagabus_store import Component

__all__ = ["TABLES", "build"]

TABLES: Final = Component("inventory", "sagabus_example_inventory", "migrations")


def build(settings: InventorySettings) -> ParticipantService:
    """Return the service; nothing is connected yet."""
    return ParticipantService(inventory, settings, Extras(components=(TABLES,)))
