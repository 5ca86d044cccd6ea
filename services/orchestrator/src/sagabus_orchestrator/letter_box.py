"""Reads every `.dlt` topic into the table of dead letters, where operators find them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from sagabus_bus import Reason
from sagabus_messages import Kind, Record, Topics
from sagabus_orchestrator import letters
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.letters import FOREIGN, SQL
from sagabus_runtime import Pulse
from sagabus_store import Database

__all__ = ["LetterBox", "letter_topics"]

COUNT_EVERY_MS: Final = 15_000
COUNT_BOUND: Final = 20_000
"""Letters that a count looks at: every replica counts, and a flood must not cost a scan."""
KINDS: Final = (*(kind.value for kind in Kind), FOREIGN)


def letter_topics(topics: Topics, participants: Sequence[str]) -> tuple[str, ...]:
    """Return the `.dlt` topics of an environment with these participants."""
    return tuple(spec.name for spec in topics.catalogue(participants) if spec.is_dead_letter)


class LetterBox:
    """A `BatchHandler` of `.dlt` topics: keeps every letter once, whatever is repeated."""

    def __init__(
        self, database: Database, topics: Topics, kept_days: int, events: OrchestratorEvents
    ) -> None:
        self._database = database
        self._topics = topics
        self._kept_days = kept_days
        self._events = events

    async def process(self, records: Sequence[Record]) -> None:
        """Keep a batch; durable on return."""
        found = [letters.read_letter(record, self._topics) for record in records]
        async with self._database.transaction() as conn:
            await letters.keep(conn, found)

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        """Keep as foreign what cannot be kept as a letter: a dead letter has no dead letter."""
        bare = letters.read_letter(replace(record, headers=()), self._topics)
        async with self._database.transaction() as conn:
            await letters.keep(conn, [replace(bare, reason=reason, attempts=attempts)])

    async def forget(self) -> None:
        """Remove letters that are too old to be redriven."""
        async with self._database.connection() as conn:
            await conn.execute(SQL["forget_letters"], self._kept_days)

    async def count(self, pulse: Pulse) -> None:
        """Publish how many letters are open, until told to stop: the `run` of a loop."""
        while not pulse.stopping:
            async with self._database.connection() as conn:
                rows = await conn.fetch(SQL["open_letters"], COUNT_BOUND)
            found = {row["kind"]: (row["letters"], row["oldest_s"]) for row in rows}
            for kind in KINDS:
                self._events.letters_open(kind, *found.get(kind, (0, 0.0)))
            pulse.beat()
            await pulse.pause(COUNT_EVERY_MS)
