"""Topics are created on purpose, and what groups have read is there for `doctor` and `why`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import GroupIdNotFound, KafkaError, TopicAlreadyExistsError, for_code

from sagabus_bus.closing import close_client, close_consumer
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.errors import (
    BusUnavailable,
    TopicMismatch,
    TopicUnavailable,
    translate,
    translated,
)
from sagabus_bus.security import opening

__all__ = [
    "CreatesTopic",
    "EnsuredTopic",
    "GroupMember",
    "GroupState",
    "PartitionLag",
    "TopicAdmin",
]

CREATION_TIMEOUT_S: Final = 60.0
CREATION_POLL_S: Final = 0.02
BROKER_DEFAULT: Final = -1
PATIENCE_S: Final = 10.0
PATIENCE_STEP_S: Final = 0.05
_ALIVE: Final = frozenset({"Stable", "PreparingRebalance", "CompletingRebalance"})


T = TypeVar("T")


class CreatesTopic(Protocol):
    """The part of `sagabus_messages.topics.TopicSpec` that a broker needs."""

    @property
    def name(self) -> str:
        """The complete name, prefix included."""

    @property
    def partitions(self) -> int:
        """How many partitions."""

    @property
    def config(self) -> dict[str, str]:
        """Kafka topic settings."""


@dataclass(frozen=True, slots=True)
class EnsuredTopic:
    """A topic that exists as the catalogue says."""

    name: str
    partitions: int
    created: bool


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """How far a group has come in one partition; `committed` is None before its first commit."""

    topic: str
    partition: int
    committed: int | None
    end: int

    @property
    def behind(self) -> int:
        """Records that the group has not settled, as far as offsets can tell."""
        return max(0, self.end - (self.committed or 0))


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One living consumer of a group."""

    member_id: str
    client_id: str
    host: str


@dataclass(frozen=True, slots=True)
class GroupState:
    """What the broker says of a consumer group: `Stable`, `Empty`, `Dead` (unknown) ..."""

    group: str
    state: str
    members: tuple[GroupMember, ...]

    @property
    def alive(self) -> bool:
        """Whether somebody reads."""
        return self.state in _ALIVE and bool(self.members)


class TopicAdmin:
    """Creates and describes topics, and reads the positions of groups. Use as `async with`.

    Every method raises `BusUnavailable` when the broker does not answer.
    """

    def __init__(
        self, connection: KafkaConnection, replication_factor: int = BROKER_DEFAULT
    ) -> None:
        self._connection = connection
        self._replication_factor = replication_factor
        self._client: AIOKafkaAdminClient | None = None

    async def __aenter__(self) -> TopicAdmin:
        client = AIOKafkaAdminClient(**self._connection.options())
        try:
            async with opening(self._connection, f"reach Kafka at {self._connection.bootstrap}"):
                await client.start()
        except BaseException:
            await _close(client)
            raise
        self._client = client
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._client is not None:
            await _close(self._client)
            self._client = None

    async def ensure(self, specs: Iterable[CreatesTopic]) -> tuple[EnsuredTopic, ...]:
        """Create what is missing; return every topic once all can be written to and read.

        Safe to call twice and at once from several processes. Raises `TopicMismatch` if a topic
        exists with another number of partitions: growing one moves keys, which people decide.
        """
        wanted = list(specs)
        present = await self.partition_counts(spec.name for spec in wanted)
        missing = [spec for spec in wanted if spec.name not in present]
        created = await self._create(missing) if missing else set()
        counts = present | await self._wait_for([spec.name for spec in missing])
        wrong = [
            f"{spec.name} has {counts[spec.name]} partitions, not {spec.partitions}"
            for spec in wanted
            if counts[spec.name] != spec.partitions
        ]
        if wrong:
            raise TopicMismatch("topic_mismatch", "; ".join(wrong))
        return tuple(
            EnsuredTopic(spec.name, spec.partitions, spec.name in created) for spec in wanted
        )

    async def require(self, names: Iterable[str]) -> None:
        """Raise `TopicUnavailable` (`topic_missing`) naming every topic that does not exist."""
        wanted = list(names)
        present = await self.partition_counts(wanted)
        missing = [name for name in wanted if name not in present]
        if missing:
            raise TopicUnavailable("topic_missing", f"no such topic: {', '.join(missing)}")

    async def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        """Return the partition counts of those topics that exist."""
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        described = await self._ask("describe topics", lambda c: c.describe_topics(wanted))
        found: dict[str, int] = {}
        for topic in described:
            error = for_code(topic["error_code"])
            if topic["error_code"] == 0:
                found[topic["topic"]] = len(topic["partitions"])
            elif not _is_missing(error):
                raise translate(error(), f"describe {topic['topic']}")
        return found

    async def end_offsets(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Return the end (next offset) of every partition of those topics that exist."""
        places = await self._partitions(topics)
        if not places:
            return {}
        consumer = AIOKafkaConsumer(**self._connection.options())
        try:
            with translated("read end offsets"):
                await consumer.start()
                ends = await consumer.end_offsets(places)
        finally:
            await close_consumer(consumer, self._connection.request_timeout_ms)
        return {(place.topic, place.partition): end for place, end in ends.items()}

    async def lag(self, group: str, topics: Iterable[str]) -> tuple[PartitionLag, ...]:
        """Return how far `group` is behind in every partition of these topics, in order."""
        names = list(topics)
        ends = await self.end_offsets(names)
        await self.group(group)  # a coordinator that still loads would answer with no offsets
        committed = await self._ask(
            f"read offsets of {group}", lambda c: c.list_consumer_group_offsets(group)
        )
        offsets = {(place.topic, place.partition): at.offset for place, at in committed.items()}
        return tuple(
            PartitionLag(topic, partition, offsets.get((topic, partition)), end)
            for (topic, partition), end in sorted(ends.items())
        )

    async def group(self, group: str) -> GroupState:
        """Return the state and the members of a group; an unknown one is `Dead`."""
        state, members = await self._ask(f"describe group {group}", lambda c: _describe(c, group))
        return GroupState(group, state, members)

    async def _create(self, specs: Sequence[CreatesTopic]) -> set[str]:
        factor = self._replication_factor
        # The driver takes the broker's default only beside (empty) replica assignments.
        assignments: dict[int, list[int]] | None = {} if factor == BROKER_DEFAULT else None
        request = [
            NewTopic(spec.name, spec.partitions, factor, assignments, spec.config) for spec in specs
        ]
        response: Any = await self._ask("create topics", lambda c: c.create_topics(request))
        created: set[str] = set()
        for name, code, *message in response.topic_errors:
            error = for_code(code)
            if code == 0:
                created.add(name)
            elif error is not TopicAlreadyExistsError:  # another process was quicker
                raise translate(error(*message), f"create topic {name}")
        return created

    async def _wait_for(self, names: list[str]) -> dict[str, int]:
        """Return once the new topics are known and every partition has a leader at work."""
        try:
            async with asyncio.timeout(CREATION_TIMEOUT_S):
                counts = await self.partition_counts(names)
                while len(counts) < len(names):
                    await asyncio.sleep(CREATION_POLL_S)
                    counts = await self.partition_counts(names)
                # Only a leader answers this; metadata names leaders before they have begun.
                await self._begun(names)
        except TimeoutError as error:
            raise BusUnavailable("bus_unavailable", "created topics do not appear") from error
        return counts

    async def _begun(self, names: list[str]) -> None:
        while True:
            try:
                await self.end_offsets(names)
            except BusUnavailable:  # a busy broker takes its time over hundreds of partitions
                await asyncio.sleep(CREATION_POLL_S)
            else:
                return

    async def _partitions(self, topics: Iterable[str]) -> list[TopicPartition]:
        counts = await self.partition_counts(topics)
        return [TopicPartition(name, p) for name, n in counts.items() for p in range(n)]

    async def _ask(self, doing: str, call: Callable[[AIOKafkaAdminClient], Awaitable[T]]) -> T:
        """Ask again while the broker says that it will soon know (elections, a young cluster)."""
        if self._client is None:
            raise BusUnavailable("bus_unavailable", f"{doing}: use TopicAdmin in `async with`")
        with translated(doing):
            return await _patiently(partial(call, self._client))


async def _close(client: AIOKafkaAdminClient) -> None:
    await close_client(client._client)  # noqa: SLF001 - its own `close` may hang, or raise


async def _patiently(call: Callable[[], Awaitable[T]]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await call()
        except KafkaError as error:
            if not error.retriable or time.monotonic() > deadline:
                raise
        await asyncio.sleep(PATIENCE_STEP_S)


async def _describe(client: AIOKafkaAdminClient, group: str) -> tuple[str, tuple[GroupMember, ...]]:
    responses: list[Any] = await client.describe_consumer_groups([group])
    code, _, state, _, _, members, *_ = responses[0].groups[0]
    error = for_code(code)
    if code and error is not GroupIdNotFound:
        raise error()
    return state or "Dead", tuple(GroupMember(m[0], m[-4], m[-3]) for m in members)


def _is_missing(error: type[Exception]) -> bool:
    return getattr(error, "message", "") in {"UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"}
