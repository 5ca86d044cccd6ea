"""How the payment participant is put together."""

from __future__ import annotations

from sagabus_example_payment.config import PaymentSettings
from sagabus_example_payment.handlers import payment_with
from sagabus_example_payment.processor import CardProcessor
from sagabus_participant import Extras, ParticipantService

__all__ = ["build"]


def build(settings: PaymentSettings) -> ParticipantService:
    """Return the service; nothing is connected yet."""
    cards = CardProcessor(settings.cards_url, settings.cards_timeout_ms)
    return ParticipantService(payment_with(cards), settings, Extras(close=cards.close))
