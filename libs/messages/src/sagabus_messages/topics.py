"""The topic catalogue: names, owners and settings of every topic of an environment."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from sagabus_core.names import NAME_PATTERN, check_name
from sagabus_messages.errors import MessageError
from sagabus_messages.models import Kind

__all__ = [
    "DEAD_LETTER_RETENTION_MS",
    "DEFAULT_PARTITIONS",
    "RETENTION_MS",
    "TopicName",
    "TopicSpec",
    "Topics",
]

DEFAULT_PARTITIONS: Final = 12
"""The same for every topic of an environment: equal keys then meet on equal partitions."""

_DAY_MS = 86_400_000
RETENTION_MS: Final = 7 * _DAY_MS
DEAD_LETTER_RETENTION_MS: Final = 14 * _DAY_MS
_MAX_MESSAGE_BYTES = 512 * 1024
_MAX_DEAD_LETTER_BYTES = 2 * 1024 * 1024
_OWNED = frozenset({Kind.COMMAND, Kind.RESULT})
_PREFIX = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,30}\.){0,2}")
_NAME = re.compile(
    r"sagabus\.(?:(start|wakeup\.request|wakeup|lifecycle)|(command|result)\.("
    + NAME_PATTERN
    + r"))\.v1(\.dlt)?"
)


@dataclass(frozen=True, slots=True)
class TopicName:
    """What a topic name says; `source` is the topic itself, or the one that a `.dlt` serves."""

    kind: Kind
    participant: str | None
    source: str
    is_dead_letter: bool


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """How one topic is created; the replication factor belongs to the deployment."""

    name: str
    kind: Kind
    participant: str | None
    is_dead_letter: bool
    partitions: int
    retention_ms: int
    max_message_bytes: int
    cleanup_policy: str = "delete"

    @property
    def config(self) -> dict[str, str]:
        """The Kafka topic settings."""
        return {
            "cleanup.policy": self.cleanup_policy,
            "max.message.bytes": str(self.max_message_bytes),
            "message.timestamp.type": "CreateTime",
            "retention.ms": str(self.retention_ms),
        }


@dataclass(frozen=True, slots=True)
class Topics:
    """The topic names of one environment. `prefix` is empty or ends with a dot: `dev.`."""

    prefix: str = ""

    def __post_init__(self) -> None:
        """Refuse a prefix that could hide where a name begins."""
        if _PREFIX.fullmatch(self.prefix) is None:
            raise MessageError(
                "invalid_prefix",
                f"topic prefix {self.prefix!a} must be empty or lower-case names with dots: `dev.`",
            )

    @property
    def start(self) -> str:
        """Start requests, read by the orchestrator."""
        return f"{self.prefix}sagabus.start.v1"

    @property
    def wakeup_request(self) -> str:
        """Armed times, read by the timer."""
        return f"{self.prefix}sagabus.wakeup.request.v1"

    @property
    def wakeup(self) -> str:
        """Times that have come, read by the orchestrator."""
        return f"{self.prefix}sagabus.wakeup.v1"

    @property
    def lifecycle(self) -> str:
        """What became of sagas, for everybody."""
        return f"{self.prefix}sagabus.lifecycle.v1"

    def command(self, participant: str) -> str:
        """Orders to a participant."""
        return f"{self.prefix}sagabus.command.{check_name(participant, 'participant')}.v1"

    def result(self, participant: str) -> str:
        """Answers of a participant, which alone may write here."""
        return f"{self.prefix}sagabus.result.{check_name(participant, 'participant')}.v1"

    @staticmethod
    def dlt(topic: str) -> str:
        """Return the dead-letter topic of a topic."""
        return f"{topic}.dlt"

    def parse(self, topic: str) -> TopicName:
        """Return what a name says. Raises `unknown_topic` for one that is not in the catalogue."""
        return _parse(self.prefix, topic)

    def catalogue(
        self, participants: Iterable[str], partitions: int = DEFAULT_PARTITIONS
    ) -> list[TopicSpec]:
        """Return every topic of an environment with these participants, sorted by name."""
        names = [self.start, self.wakeup_request, self.wakeup, self.lifecycle]
        for participant in sorted(set(participants)):
            names += [self.command(participant), self.result(participant)]
        return [
            spec
            for name in sorted(names)
            for spec in (self._spec(name, partitions), self._spec(self.dlt(name), partitions))
        ]

    def _spec(self, topic: str, partitions: int) -> TopicSpec:
        name = self.parse(topic)
        dead = name.is_dead_letter
        return TopicSpec(
            topic,
            name.kind,
            name.participant,
            dead,
            partitions,
            DEAD_LETTER_RETENTION_MS if dead else RETENTION_MS,
            _MAX_DEAD_LETTER_BYTES if dead else _MAX_MESSAGE_BYTES,
        )


@lru_cache(maxsize=4096)
def _parse(prefix: str, topic: str) -> TopicName:
    found = _NAME.fullmatch(topic, len(prefix)) if topic.startswith(prefix) else None
    if found is None:
        raise MessageError(
            "unknown_topic", f"{topic[:255]!a} is no topic of an environment with prefix {prefix!a}"
        )
    plain, owned, participant, dead = found.groups()
    return TopicName(Kind(plain or owned), participant, topic.removesuffix(".dlt"), bool(dead))
