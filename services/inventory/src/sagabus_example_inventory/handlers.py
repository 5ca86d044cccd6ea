"""Reserve and sell stock: everything happens in this database, so both steps are local.

The SDK runs `execute` and `compensate` inside one transaction with the inbox, the journal and the
answer. It answers CANCEL and RESOLVE from its journal: there is nothing to write for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, PositiveInt

from sagabus_participant import (
    ExecutedLocally,
    Halted,
    LocalContext,
    LocalStep,
    Participant,
    Rejected,
    Succeeded,
    Transient,
    Undone,
)
from sagabus_store import Connection, Queries

__all__ = ["ConfirmSale", "ReserveStock", "inventory"]

inventory = Participant("inventory")
SQL: Final = Queries("sagabus_example_inventory", "sql/stock.sql")


class ReserveStock(BaseModel):
    """Which order wants how much of what."""

    model_config = ConfigDict(frozen=True)

    order: str
    sku: str
    quantity: PositiveInt


class Reserved(BaseModel):
    """What `reserve-stock` answers."""

    reservation_id: str


class ConfirmSale(BaseModel):
    """Which reservation is sold."""

    model_config = ConfigDict(frozen=True)

    order: str
    reservation_id: str


@inventory.step("reserve-stock", input=ReserveStock, output=Reserved)
class ReserveStockStep(LocalStep[ReserveStock]):
    """Takes the quantity from the shelf; undone by putting it back."""

    async def execute(self, ctx: LocalContext, order: ReserveStock) -> ExecutedLocally:
        """Reserve under the idempotency key: the same order can never reserve twice."""
        shelf = await ctx.conn.fetchrow(SQL["find"], order.sku)
        if shelf is None:
            return Rejected("unknown_sku", f"there is no {order.sku}")
        if shelf["counting"]:
            # Nothing is wrong with the order: tried again until it expires, then cancelled.
            raise Transient(f"{order.sku} is being counted")
        if shelf["available"] < order.quantity:
            return Rejected("out_of_stock", f"{shelf['available']} of {order.quantity} left")
        await ctx.conn.execute(SQL["remove"], order.sku, order.quantity)
        await ctx.conn.execute(
            SQL["reserve"], ctx.idempotency_key, order.order, order.sku, order.quantity
        )
        return Succeeded(Reserved(reservation_id=ctx.idempotency_key))

    async def compensate(self, ctx: LocalContext) -> Undone:
        """Put back what the recorded success took."""
        if await ctx.conn.fetchval(SQL["release"], ctx.execute_key) is None:
            return Halted("reservation_not_open", "sold or released behind the saga's back")
        return Succeeded()


@inventory.step("confirm", input=ConfirmSale, retriable=True)
class ConfirmStep(LocalStep[ConfirmSale]):
    """Marks the reservation as sold; stands after the pivot, so it has to succeed in the end."""

    async def execute(self, ctx: LocalContext, order: ConfirmSale) -> ExecutedLocally:
        """Sell; selling twice is the same as once."""
        return _sold(order, await self._sell(ctx.conn, [order]))

    async def execute_many(
        self, batch: Sequence[tuple[LocalContext, ConfirmSale]]
    ) -> Sequence[ExecutedLocally]:
        """Sell all in one statement: what stands after the pivot is seldom refused."""
        orders = [order for _, order in batch]
        sold = await self._sell(batch[0][0].conn, orders)
        return [_sold(order, sold) for order in orders]

    @staticmethod
    async def _sell(conn: Connection, orders: Sequence[ConfirmSale]) -> set[str]:
        rows = await conn.fetch(SQL["sell"], [order.reservation_id for order in orders])
        return {str(row["reservation_id"]) for row in rows}


def _sold(order: ConfirmSale, sold: set[str]) -> ExecutedLocally:
    if order.reservation_id not in sold:
        return Rejected("reservation_not_open", f"{order.reservation_id} cannot be sold")
    return Succeeded()
