"""Ship a parcel with a carrier that sometimes answers only later, by callback.

`ship` is the pivot: after its success the order can only go forward. Some addresses have to be
looked up: the answer is UNKNOWN first, and the carrier's decision follows as a second answer to
the same command. Until then a RESOLVE hears UNKNOWN as well.
"""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict

from sagabus_participant import (
    Executed,
    ExternalContext,
    ExternalStep,
    Participant,
    Rejected,
    Resolved,
    StepOptions,
    Succeeded,
    Unknown,
)
from sagabus_store import Queries

__all__ = ["SQL", "Ship", "ShipStep", "decision_about", "shipping_with"]

SQL: Final = Queries("sagabus_example_shipping", "sql/shipments.sql")

REFUSED: Final = "nowhere"
LOOKED_UP: Final = "look-up:"


class Ship(BaseModel):
    """Which order goes where."""

    model_config = ConfigDict(frozen=True)

    order: str
    address: str


class Shipped(BaseModel):
    """What `ship` answers."""

    shipment_id: str


class ShipStep(ExternalStep[Ship]):
    """Hands a parcel over to the carrier; resolve-only, and nothing undoes it."""

    def __init__(self, carrier_delay_ms: int) -> None:
        self._delay_ms = carrier_delay_ms

    async def execute(self, ctx: ExternalContext, order: Ship) -> Executed:
        """Ask the carrier under the idempotency key; its first decision stands."""
        status = _first_status(order.address)
        async with ctx.db.transaction() as conn:
            (row,) = await conn.fetch(
                SQL["ask"], ctx.idempotency_key, order.order, order.address, status, self._delay_ms
            )
        return _answer(row["status"], row["shipment_id"])

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        """Ask what became of the key; one that the carrier never saw is forbidden first."""
        async with ctx.db.transaction() as conn:
            (row,) = await conn.fetch(SQL["settle"], ctx.idempotency_key)
        return _answer(row["status"], row["shipment_id"])


def decision_about(shipment_id: str, address: str) -> Succeeded | Rejected:
    """Return what the carrier calls back about an address that was looked up."""
    if address.removeprefix(LOOKED_UP) == REFUSED:
        return Rejected("address_refused", "the carrier does not go there")
    return Succeeded(Shipped(shipment_id=shipment_id))


def _first_status(address: str) -> str:
    if address.startswith(LOOKED_UP):
        return "PENDING"
    return "REFUSED" if address == REFUSED else "SHIPPED"


def _answer(status: str, shipment_id: str) -> Executed:
    match status:
        case "SHIPPED":
            return Succeeded(Shipped(shipment_id=shipment_id))
        case "REFUSED":
            return Rejected("address_refused", "the carrier does not go there")
        case "FORBIDDEN":
            return Rejected("never_shipped", "the carrier will never ship this key")
        case _:
            return Unknown("address_looked_up", "the carrier will call back")


def shipping_with(carrier_delay_ms: int) -> Participant:
    """Return the participant with a carrier of this speed."""
    shipping = Participant("shipping")
    shipping.add(
        "ship", Ship, ShipStep(carrier_delay_ms), StepOptions(output=Shipped, idempotent=True)
    )
    return shipping
