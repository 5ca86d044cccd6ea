"""The port behind which a bulk operation's rights are asked again before each batch."""

from __future__ import annotations

from typing import Protocol

from sagabus_orchestrator.bulk.values import Bulk

__all__ = ["FirstRights", "Rights"]


class Rights(Protocol):
    """What whoever answers for a bulk operation may do now."""

    async def permitted(self, bulk: Bulk) -> frozenset[str] | None:
        """Return what they may do, in the engine's names of permissions; None: anything.

        Raises `Refused` (`rights_lost`) if they may not go on at all, `StoreUnavailable`.
        """


class FirstRights:
    """Believes for ever what was true when the bulk operation was begun, or resumed last."""

    async def permitted(self, bulk: Bulk) -> frozenset[str] | None:
        """Return what was permitted then."""
        return bulk.order.permitted
