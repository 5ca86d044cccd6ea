"""Facts of Kafka for the doctor, judged as they come."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Final

from sagabus_bus import BusError, KafkaConnection, TopicInspector
from sagabus_orchestrator.doctor.checks import (
    Check,
    Level,
    judge_count,
    judge_group,
    judge_retention,
    judge_topics,
)
from sagabus_orchestrator.readers import Readers

__all__ = ["examine_broker"]

_PATIENCE_S: Final = 20.0


async def examine_broker(
    connection: KafkaConnection,
    readers: Readers,
    participants: Iterable[str],
    waiting: Iterable[str],
    inbox_days: int,
) -> list[Check]:
    """Check topics, their settings and groups; an unreachable Kafka is one failed check."""
    owners, topics = sorted(participants), readers.topics
    try:
        async with asyncio.timeout(_PATIENCE_S), TopicInspector(connection) as admin:
            wanted = [spec.name for spec in topics.catalogue(owners)]
            counts = await admin.partition_counts([*wanted, *waiting])
            held = sorted(name for name in waiting if name not in counts)
            kept = await admin.retention_ms(name for name in wanted if name in counts)
            return [
                judge_topics({n: c for n, c in counts.items() if n in wanted}, wanted),
                judge_count(
                    "held",
                    len(held),
                    f"topics that records wait for are missing{held and ': '}{', '.join(held)}"
                    if held
                    else "topics are held by the relay",
                    "create them: the relay tries again by itself",
                ),
                judge_retention(kept, inbox_days),
                *[
                    await _group(admin, group, [name for name in names if name in counts])
                    for group, names in readers.all(owners).items()
                ],
            ]
    except TimeoutError:
        detail = f"no answer within {_PATIENCE_S:.0f} s"
    except BusError as error:
        detail = error.detail
    return [Check("kafka", Level.FAIL, f"Kafka not reachable: {detail}", "see SAGABUS_KAFKA")]


async def _group(admin: TopicInspector, group: str, names: list[str]) -> Check:
    state = await admin.group(group)
    lags = await admin.lag(group, names)
    behind = sum(lag.behind for lag in lags)
    return judge_group(group, len(state.members) if state.alive else 0, behind)
