"""Orders of one instant, which a service would find in one batch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from sagabus_participant.orders import Order
from sagabus_testkit.memory.agenda import Agenda

__all__ = ["Instant"]


@dataclass(slots=True)
class Instant:
    """Collects what arrives at the same time, and hands it on before time goes on."""

    agenda: Agenda
    handle: Callable[[Sequence[Order]], Awaitable[None]]
    _orders: list[Order] = field(default_factory=list)

    def add(self, order: Order) -> None:
        """Collect one; everything else that is due at this instant comes first."""
        if not self._orders:
            self.agenda.after(0, self.hand_on)
        self._orders.append(order)

    def concerns(self, order: Order) -> bool:
        """Whether an order of the same activation is waiting here."""
        return any(each.execute_id == order.execute_id for each in self._orders)

    async def hand_on(self) -> None:
        """Handle now what has been collected."""
        orders, self._orders = self._orders, []
        if orders:
            await self.handle(orders)
