"""What happens to consumers and topics of a living Kafka: storms of rebalances, new partitions."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError, NoError, UnknownMemberIdError, for_code
from aiokafka.protocol.group import LeaveGroupRequest

from sagabus_bus import KafkaConnection, TopicAdmin

__all__ = ["add_partitions", "dismiss_members", "rebalance_storm", "rewind_group"]

_SESSION_MS: Final = 6_000
_PATIENCE_S: Final = 15.0


async def rebalance_storm(
    connection: KafkaConnection,
    groups: Mapping[str, Sequence[str]],
    *,
    seconds: float,
    every_s: float = 1.0,
) -> int:
    """Let a member join and leave each of these groups, again and again; return how many joined.

    A joined member is given partitions, holds them until it leaves, and commits nothing: whatever
    it was handed comes again to the group's true members.
    """
    until = time.monotonic() + seconds
    storms = (_storm(connection, group, topics, until, every_s) for group, topics in groups.items())
    return sum(await asyncio.gather(*storms))


async def add_partitions(connection: KafkaConnection, topics: Iterable[str], total: int) -> None:
    """Grow every topic to `total` partitions: keys move to other partitions from now on."""
    admin = AIOKafkaAdminClient(**connection.options())
    await admin.start()
    try:
        await admin.create_partitions({name: NewPartitions(total) for name in topics})
    finally:
        await admin.close()


async def rewind_group(
    connection: KafkaConnection, group: str, topics: Sequence[str], to_ms: int
) -> None:
    """Let a group without members begin again at records of `to_ms`, epoch milliseconds."""
    async with TopicAdmin(connection) as admin:
        counts = await admin.partition_counts(topics)
    places = [TopicPartition(topic, number) for topic, n in counts.items() for number in range(n)]
    consumer = AIOKafkaConsumer(**connection.options(), group_id=group, enable_auto_commit=False)
    await consumer.start()
    try:
        consumer.assign(places)
        ends = await consumer.end_offsets(places)
        found = await consumer.offsets_for_times(dict.fromkeys(places, to_ms))
        # No record is that young: there is nothing to read again.
        await consumer.commit({p: at.offset if at else ends[p] for p, at in found.items()})
    finally:
        await consumer.stop()


async def dismiss_members(connection: KafkaConnection, group: str) -> int:
    """Let a group forget its present members, whose processes are known to be dead; how many.

    The broker would find out by itself, after the session of ten seconds, which proves nothing
    again in every test that kills a process.
    """
    async with TopicAdmin(connection) as topics:
        members = (await topics.group(group)).members
    admin = AIOKafkaAdminClient(**connection.options())
    await admin.start()
    try:
        coordinator = await admin.find_coordinator(group)
        for member in members:
            request = LeaveGroupRequest(group, member.member_id)
            answer: Any = await admin._send_request(request, coordinator)  # noqa: SLF001 - none public
            error = for_code(answer.error_code)
            if error not in {NoError, UnknownMemberIdError}:  # its session may end meanwhile
                raise error(f"dismiss {member.member_id} from {group}")
    finally:
        await admin.close()
    return len(members)


async def _storm(
    connection: KafkaConnection, group: str, topics: Sequence[str], until: float, every_s: float
) -> int:
    joined = 0
    while time.monotonic() < until:
        guest = AIOKafkaConsumer(
            *topics,
            **connection.options(),
            group_id=group,
            enable_auto_commit=False,
            session_timeout_ms=_SESSION_MS,
            heartbeat_interval_ms=500,
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        joined += await _visit(guest, every_s)
        await asyncio.sleep(every_s)
    return joined


async def _visit(guest: AIOKafkaConsumer, stay_s: float) -> bool:
    """Join, stay, leave; return whether the group let it in."""
    joined = False
    try:
        # A join waits for every other member to come again, which a storm may delay.
        with contextlib.suppress(TimeoutError, KafkaError):
            async with asyncio.timeout(_PATIENCE_S):
                await guest.start()
            joined = True
        await asyncio.sleep(stay_s)
    finally:
        await guest.stop()
    return joined
