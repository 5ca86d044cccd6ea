"""Has everything come to rest? Nothing to relay, nothing unread, nothing half done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from sagabus_bus import PartitionLag, TopicAdmin
from sagabus_testkit.orders.reconcile import rows_of
from sagabus_testkit.system import PARTICIPANTS, SERVICES, System

__all__ = ["consumer_groups", "count_dead_letters", "remaining_work", "wait_until_quiet"]

_POLL_S: Final = 0.5


async def wait_until_quiet(system: System, within_s: float = 60.0) -> list[str]:
    """Wait until no work is left; return what is left after `within_s`, as sentences."""
    deadline = time.monotonic() + within_s
    left = await remaining_work(system)
    while left and time.monotonic() < deadline:
        await asyncio.sleep(_POLL_S)
        left = await remaining_work(system)
    return left


async def remaining_work(system: System) -> list[str]:
    """Return what still waits: outbox rows, parked ones, accepted commands, unread records."""
    left: list[str] = []
    for kind in SERVICES:
        if kind.has_outbox:
            (row,) = await rows_of(system, kind.name, "unsent")
            left += [f"{kind.name}: {n} records {how}" for how, n in row.items() if n]
    for name in PARTICIPANTS:
        (row,) = await rows_of(system, name, "undone")
        left += [f"{name}: {row['commands']} commands accepted"] if row["commands"] else []
    async with TopicAdmin(system.connection) as admin:
        for group, topics in consumer_groups(system).items():
            left += _unread(group, await admin.lag(group, topics))
    return left


async def count_dead_letters(system: System) -> int:
    """Return how many dead letters this system has ever written."""
    names = [spec.name for spec in system.topics.catalogue(PARTICIPANTS) if spec.is_dead_letter]
    async with TopicAdmin(system.connection) as admin:
        return sum((await admin.end_offsets(names)).values())


def consumer_groups(system: System) -> dict[str, list[str]]:
    """Return the topics that each consumer group of this system reads."""
    topics = system.topics
    results = [topics.result(name) for name in PARTICIPANTS]
    return {
        f"{topics.prefix}sagabus-orchestrator": [topics.start, topics.wakeup, *results],
        f"{topics.prefix}sagabus-timer": [topics.wakeup_request],
        **{f"{topics.prefix}sagabus.{name}.v1": [topics.command(name)] for name in PARTICIPANTS},
    }


def _unread(group: str, lags: tuple[PartitionLag, ...]) -> Iterator[str]:
    for lag in lags:
        if lag.behind:
            yield f"{group}: {lag.behind} records unread in {lag.topic}/{lag.partition}"
