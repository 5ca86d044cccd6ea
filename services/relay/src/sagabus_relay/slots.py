"""Slots: the shards of one outbox, grouped into units that one replica owns at a time."""

from __future__ import annotations

from dataclasses import dataclass

from sagabus_core.ids import SHARDS

__all__ = ["Slot"]


@dataclass(frozen=True, slots=True, order=True)
class Slot:
    """Slot `number` of the `of` slots of an outbox; every shard belongs to exactly one."""

    outbox: str
    number: int
    of: int

    @property
    def shards(self) -> tuple[int, ...]:
        """The shards of this slot, ascending."""
        return tuple(range(self.number, SHARDS, self.of))

    @property
    def transactional_id(self) -> str:
        """The broker's fence: whoever opens it last shuts out everybody before."""
        return f"sagabus-relay.{self.outbox}.{self.number}-of-{self.of}"
