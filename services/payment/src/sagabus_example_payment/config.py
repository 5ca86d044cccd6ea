"""Settings of the payment participant."""

from __future__ import annotations

from pydantic import Field

from sagabus_participant import ParticipantSettings

__all__ = ["PaymentSettings"]


class PaymentSettings(ParticipantSettings):
    """Where the card processor is."""

    cards_url: str = Field(pattern=r"^https?://[^/]+$")
    """Base URL of the card processor, for example http://127.0.0.1:8088."""
    cards_timeout_ms: int = Field(default=20_000, ge=100)
    """How long one call to the card processor may take before its outcome is unknown."""
