"""Leases in the relay's own database: who may publish the rows of which slot, until when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sagabus_relay.share import fair_share
from sagabus_relay.slots import Slot
from sagabus_store import Database, Queries

__all__ = ["LeasePolicy", "LeaseStore"]

_SQL: Final = Queries("sagabus_relay", "sql/leases.sql")


@dataclass(frozen=True, slots=True)
class LeasePolicy:
    """A lease lasts `lease_ms` in the database; its holder stops acting `margin_ms` earlier."""

    lease_ms: int = 3_000
    margin_ms: int = 500
    tick_ms: int = 600

    @property
    def usable_ms(self) -> int:
        """How long a holder may act after it *asked* for a renewal."""
        return self.lease_ms - self.margin_ms


class LeaseStore:
    """The leases of one replica; time is the database's clock."""

    def __init__(self, database: Database, replica: UUID, policy: LeasePolicy) -> None:
        self._database = database
        self._replica = replica
        self._policy = policy

    async def register(self, outboxes: Mapping[str, int]) -> dict[str, int]:
        """Make outboxes and their slots known; return how many slots each one has.

        The number that was registered first stands, whatever is configured later: two replicas
        with different ideas of a slot would own the same shard.
        """
        names = list(outboxes)
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["register"], names, list(outboxes.values()))
            await connection.execute(_SQL["register_slots"], names)
            return dict(map(tuple, await connection.fetch(_SQL["slots"], names)))

    async def turn(self, slots: Mapping[str, int]) -> tuple[frozenset[Slot], int]:
        """Renew, then take a fair share; return the slots held now and how many are too many."""
        total = sum(slots.values())
        async with self._database.transaction() as connection:
            await connection.execute(_SQL["beat"], self._replica)
            held = await connection.fetch(_SQL["renew"], self._replica, self._policy.lease_ms)
            live = await connection.fetchval(_SQL["live"], self._policy.lease_ms)
            share = fair_share(total, int(live), len(held))
            if share.claim:
                held += await connection.fetch(
                    _SQL["claim"], self._replica, list(slots), self._policy.lease_ms, share.claim
                )
        return frozenset(Slot(r["outbox"], r["slot"], slots[r["outbox"]]) for r in held), (
            share.release
        )

    async def release(self, slots: Sequence[Slot]) -> None:
        """Give slots back at once."""
        async with self._database.connection() as connection:
            await connection.execute(
                _SQL["release"], self._replica, [s.outbox for s in slots], [s.number for s in slots]
            )

    async def leave(self) -> None:
        """Take this replica out of the sharing."""
        async with self._database.connection() as connection:
            await connection.execute(_SQL["leave"], self._replica, self._policy.lease_ms * 100)
