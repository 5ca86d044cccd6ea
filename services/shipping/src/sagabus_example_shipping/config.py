"""Settings of the shipping participant."""

from __future__ import annotations

from pydantic import Field

from sagabus_participant import ParticipantSettings

__all__ = ["ShippingSettings"]


class ShippingSettings(ParticipantSettings):
    """How slow the carrier is."""

    carrier_delay_ms: int = Field(default=700, ge=0)
    """After how long the carrier calls back about an address that it has to look up."""
