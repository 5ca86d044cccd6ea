"""Which consumer group reads which topic: what `why` and `doctor` ask Kafka about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sagabus_messages import Topics

__all__ = ["ORCHESTRATOR", "TIMER", "Readers"]

ORCHESTRATOR: Final = "orchestrator"
TIMER: Final = "timer"


@dataclass(frozen=True, slots=True)
class Readers:
    """Groups by service: complete names where they are told, else as the services name them."""

    topics: Topics
    named: Mapping[str, str] = field(default_factory=dict)

    @property
    def orchestrator(self) -> str:
        """The group of starts, results and wake-ups."""
        return self.named.get(ORCHESTRATOR, f"{self.topics.prefix}sagabus-orchestrator")

    @property
    def timer(self) -> str:
        """The group of wake-up requests."""
        return self.named.get(TIMER, f"{self.topics.prefix}sagabus-timer")

    def participant(self, name: str) -> str:
        """Return the group of a participant's commands."""
        return self.named.get(name, f"{self.topics.prefix}sagabus.{name}.v1")

    def all(self, participants: Iterable[str]) -> dict[str, list[str]]:
        """Return every group with the topics that it reads."""
        owners, topics = list(participants), self.topics
        results = [topics.result(owner) for owner in owners]
        return {
            self.orchestrator: [topics.start, topics.wakeup, *results],
            self.timer: [topics.wakeup_request],
            **{self.participant(owner): [topics.command(owner)] for owner in owners},
        }
