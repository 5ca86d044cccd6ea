"""Publishes how much waits in the slots of this replica."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sagabus_relay.events import RelayEvents
from sagabus_relay.slots import Slot
from sagabus_relay.table import Backlog, OutboxTable
from sagabus_runtime import Pulse
from sagabus_runtime.errors import is_retryable

__all__ = ["BacklogWatch"]

ROUND_MS: Final = 5_000
_NOTHING: Final = Backlog(0, 0.0, 0)


class BacklogWatch:
    """The slow loop of the relay: one bounded count per outbox and round."""

    def __init__(
        self,
        tables: Mapping[str, OutboxTable],
        owned: Callable[[], list[Slot]],
        events: RelayEvents,
    ) -> None:
        self._tables = tables
        self._owned = owned
        self._events = events

    async def run(self, pulse: Pulse) -> None:
        """Look until `pulse.stopping`; an outbox that is away does not keep the others waiting."""
        while not pulse.stopping:
            pulse.beat()
            await self.look()
            await pulse.pause(ROUND_MS)

    async def look(self) -> None:
        """Publish what waits in the slots held now; nothing waits in those of other replicas."""
        shards: dict[str, list[int]] = {outbox: [] for outbox in self._tables}
        for slot in self._owned():
            shards[slot.outbox].extend(slot.shards)
        for outbox, wanted in shards.items():
            if wanted:
                await self._look(outbox, wanted)
            else:
                self._events.backlog(outbox, _NOTHING)

    async def _look(self, outbox: str, shards: list[int]) -> None:
        try:
            self._events.backlog(outbox, await self._tables[outbox].backlog(shards))
        except Exception as error:
            # The worker of the slot reports the outage; here it only costs one reading.
            if not is_retryable(error):
                raise
