"""Settings of the inventory participant."""

from __future__ import annotations

from sagabus_participant import ParticipantSettings

__all__ = ["InventorySettings"]


class InventorySettings(ParticipantSettings):
    """Nothing but what every participant needs."""
