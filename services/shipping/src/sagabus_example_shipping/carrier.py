"""The carrier's side: decides about looked-up addresses and calls back."""

from __future__ import annotations

from sagabus_example_shipping.handlers import SQL, decision_about
from sagabus_participant import Running, Succeeded
from sagabus_runtime.health import Pulse

__all__ = ["Carrier"]

POLL_MS = 100


class Carrier:
    """Reports each decision in the transaction that makes it durable."""

    def __init__(self, running: Running) -> None:
        self._running = running

    async def run(self, pulse: Pulse) -> None:
        """Call back about everything that is due, until asked to stop."""
        while not pulse.stopping:
            await self.call_back()
            pulse.beat()
            await pulse.pause(POLL_MS)

    async def call_back(self) -> int:
        """Decide about the parcels that are due; return how many there were."""
        async with self._running.db.transaction() as conn:
            parcels = await conn.fetch(SQL["ready"])
            for parcel in parcels:
                key = str(parcel["idempotency_key"])
                decision = decision_about(parcel["shipment_id"], parcel["address"])
                status = "SHIPPED" if isinstance(decision, Succeeded) else "REFUSED"
                await conn.execute(SQL["decide"], key, status)
                await self._running.callbacks.report(conn, key, decision)
        return len(parcels)
