"""What Kafka tells about the places of one key: partition, offsets, live readers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from sagabus_bus import BusError, KafkaConnection, TopicAdmin, partition_of
from sagabus_orchestrator.why.facts import BusFacts, Place

__all__ = ["KafkaBus", "NoBus"]

_PATIENCE_S: Final = 8.0


class NoBus:
    """Stands in for a Kafka that nothing names: everything else is explained all the same."""

    def __init__(self, problem: str) -> None:
        self._problem = problem

    async def look(self, key: bytes, readers: Iterable[tuple[str, str]]) -> BusFacts:
        """Return why nothing can be told."""
        del key, readers
        return BusFacts(problem=self._problem)


class KafkaBus:
    """Asks the broker; an unreachable or slow one becomes a sentence, never an error."""

    def __init__(self, connection: KafkaConnection) -> None:
        self._connection = connection

    async def look(self, key: bytes, readers: Iterable[tuple[str, str]]) -> BusFacts:
        """Return the place of `key` in each topic with how far its group is."""
        try:
            async with asyncio.timeout(_PATIENCE_S), TopicAdmin(self._connection) as admin:
                return BusFacts(await _places(admin, key, list(readers)))
        except TimeoutError:
            return BusFacts(problem=f"no answer within {_PATIENCE_S:.0f} s")
        except BusError as error:
            return BusFacts(problem=error.detail)


async def _places(
    admin: TopicAdmin, key: bytes, readers: list[tuple[str, str]]
) -> tuple[Place, ...]:
    counts = await admin.partition_counts(topic for topic, _ in readers)
    places = {topic: Place(topic, partition_of(key, n), "", 0) for topic, n in counts.items()}
    for group in {group for _, group in readers if group}:
        state = await admin.group(group)
        wanted = [topic for topic, reader in readers if reader == group and topic in counts]
        for lag in await admin.lag(group, wanted) if wanted else ():
            if lag.partition == places[lag.topic].partition:
                members = len(state.members) if state.alive else 0
                places[lag.topic] = Place(
                    lag.topic, lag.partition, group, members, lag.committed, lag.end
                )
    missing = [Place(topic, None, group, 0) for topic, group in readers if topic not in counts]
    return (*places.values(), *missing)
