"""How the shipping participant is put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from sagabus_example_shipping.carrier import Carrier
from sagabus_example_shipping.config import ShippingSettings
from sagabus_example_shipping.handlers import shipping_with
from sagabus_participant import Extras, ParticipantService, Running
from sagabus_runtime.lifecycle import Loop
from sagabus_store import Component

__all__ = ["TABLES", "build"]

TABLES: Final = Component("shipping", "sagabus_example_shipping", "migrations")


def build(settings: ShippingSettings) -> ParticipantService:
    """Return the service; nothing is connected yet."""
    extras = Extras(components=(TABLES,), loops=_loops)
    return ParticipantService(shipping_with(settings.carrier_delay_ms), settings, extras)


def _loops(running: Running) -> Sequence[Loop]:
    return [Loop("carrier", Carrier(running).run)]
