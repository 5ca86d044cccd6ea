"""What is known of one saga's wait, as plain values; and the port to what Kafka knows. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from sagabus_core import ids
from sagabus_core.definitions import Definition
from sagabus_core.engine import Channel, ForwardState, MemberState, Snapshot
from sagabus_core.engine.deadlines import live_tracks
from sagabus_core.engine.snapshot import Track

__all__ = ["Asked", "Bus", "BusFacts", "Facts", "Finding", "Place", "Record", "Told", "asked"]

_CHANNEL_OF = {
    ForwardState.EXECUTING: Channel.EXECUTE,
    ForwardState.CANCELLING: Channel.CANCEL,
    ForwardState.RESOLVING: Channel.RESOLVE_EXECUTE,
    MemberState.COMPENSATING: Channel.COMPENSATE,
    MemberState.RESOLVING: Channel.RESOLVE_COMPENSATE,
}


@dataclass(frozen=True, slots=True)
class Asked:
    """The last command of one open step, or its retry to come; `participant` None: unknown."""

    path: str
    step: str
    participant: str | None
    channel: Channel
    attempt: int
    command_id: str
    deadline_at_ms: int | None
    retry_at_ms: int | None
    budget_at_ms: int | None
    halted: bool

    @property
    def named(self) -> str:
        """The command for people: `EXECUTE reserve attempt 1`."""
        target = f" of {self.channel.target}" if self.channel.target else ""
        return f"{self.channel.phase}{target} {self.path} attempt {self.attempt}"


@dataclass(frozen=True, slots=True)
class Record:
    """A record of this saga that the relay still has to send; `reason` says why it is parked."""

    topic: str
    ce_id: str
    parked: bool
    reason: str | None
    since_at: datetime


@dataclass(frozen=True, slots=True)
class Place:
    """Where a topic keeps this saga's records, and how far its readers are; None: unknown."""

    topic: str
    partition: int | None
    group: str
    members: int
    committed: int | None = None
    end: int | None = None

    @property
    def exists(self) -> bool:
        """Whether the topic exists."""
        return self.partition is not None

    @property
    def unread(self) -> int:
        """Records of the partition that the group has not settled."""
        return max(0, (self.end or 0) - (self.committed or 0))


@dataclass(frozen=True, slots=True)
class BusFacts:
    """What Kafka said by topic; `problem` why it said nothing."""

    places: tuple[Place, ...] = ()
    problem: str | None = None

    def at(self, topic: str) -> Place | None:
        """Return what is known of a topic."""
        return next((place for place in self.places if place.topic == topic), None)


NOT_ASKED: Final = BusFacts()


class Bus(Protocol):
    """What Kafka can tell; it never raises: an unreachable Kafka is an answer."""

    async def look(self, key: bytes, readers: Iterable[tuple[str, str]]) -> BusFacts:
        """Return the place of `key` in each (topic, consumer group); group '': nobody's."""


@dataclass(frozen=True, slots=True)
class Told:
    """Who did something by hand, when and why; `hold`: which hold paused the saga, if one did."""

    actor: str
    reason: str
    at: datetime
    hold: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What the reconciler found wrong with the saga."""

    fault: str
    detail: str
    repaired: bool
    at: datetime


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that the explanation is made from."""

    saga: Snapshot
    now_ms: int
    asked: tuple[Asked, ...]
    command_topics: dict[str, str]
    result_topics: dict[str, str]
    records: tuple[Record, ...] = ()
    deferred: int = 0
    deferred_since_at: datetime | None = None
    paused: Told | None = None
    findings: tuple[Finding, ...] = ()
    archived_at: datetime | None = None
    bus: BusFacts = NOT_ASKED


def asked(saga: Snapshot, definition: Definition | None) -> tuple[Asked, ...]:
    """Return what is asked of whom, in the order of the first commands."""
    return tuple(_asked(saga, definition, path, track) for path, track in live_tracks(saga))


def _asked(saga: Snapshot, definition: Definition | None, path: str, track: Track) -> Asked:
    channel = _CHANNEL_OF[track.state]
    attempt = track.attempts.get(channel, 0)
    node = definition.nodes.get(path) if definition is not None else None
    version = saga.definition_version
    effect = ids.effect_id(saga.saga_id, version, path, channel.phase, channel.target)
    return Asked(
        path=path,
        step=node.step.name if node is not None else path,
        participant=node.step.participant if node is not None else None,
        channel=channel,
        attempt=attempt,
        command_id=ids.command_id(effect, attempt),
        deadline_at_ms=track.deadline_at_ms,
        retry_at_ms=track.retry_at_ms,
        budget_at_ms=track.budget_at_ms,
        halted=track.halted,
    )
