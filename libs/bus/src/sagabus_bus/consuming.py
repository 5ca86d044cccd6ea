"""What the consumer edge asks of the driver, with its failures made into ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from sagabus_bus.dead_letters import Reason
from sagabus_bus.errors import BusError, BusUnavailable, translated
from sagabus_messages.record import Headers, Record

__all__ = ["Unreadable", "UnreadableRecord", "find_unreadable", "poll", "what_broke"]

POLL_GRACE_MS: Final = 20_000
_VALUE: Final = itemgetter(1)
CAREFUL_POLL_MS: Final = 500


class UnreadableRecord(BusError):
    """The driver could not decode something that it fetched; positions can no longer be trusted."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The place of a record that cannot be decoded, with an empty record to stand in for it."""

    partition: TopicPartition
    stand_in: Record
    reason: Reason


async def poll(consumer: AIOKafkaConsumer, wait_ms: int, max_records: int) -> list[Record]:
    """Return the next records of all partitions, or none after `wait_ms`.

    Raises `UnreadableRecord` when a fetched record cannot be decoded, `BusUnavailable` when the
    driver does not come back (a rebalance that never ends) or is broken for good (build another
    consumer), else what `translate` gives.
    """
    broken = what_broke(consumer)
    if broken is not None:
        raise BusUnavailable("bus_unavailable", f"the driver's consumer is broken: {broken}")
    try:
        with translated("fetch records"):
            async with asyncio.timeout((wait_ms + POLL_GRACE_MS) / 1000):
                polled = await consumer.getmany(timeout_ms=wait_ms, max_records=max_records)
    except (ValueError, IndexError) as error:  # UnicodeDecodeError is a ValueError
        raise UnreadableRecord("unreadable_record", f"cannot decode a record: {error}") from error
    return [_record(raw) for batch in polled.values() for raw in batch]


def what_broke(consumer: AIOKafkaConsumer) -> str | None:
    """Return why this consumer will never read again; None while it may.

    An error that the driver does not expect ends its fetching task for good (uvloop raises one
    for a write to a connection that was reset a moment before). The driver logs it, goes on to
    heartbeat, and polls are empty: the partitions would stand still in the hands of this member.
    """
    coordinator = getattr(consumer, "_coordinator", None)
    fetcher = getattr(consumer, "_fetcher", None)
    for task in (
        getattr(fetcher, "_fetch_task", None),
        getattr(coordinator, "_coordination_task", None),
        getattr(coordinator, "_reset_committed_task", None),  # of a consumer without a group
    ):
        if isinstance(task, asyncio.Task) and task.done() and not task.cancelled():
            error = task.exception()
            return repr(error.__cause__ or error) if error else f"{task.get_name()} has ended"
    return None


async def find_unreadable(consumer: AIOKafkaConsumer) -> AsyncIterator[Record | Unreadable]:
    """Yield records one by one, up to and with the first that cannot be decoded.

    When a poll fails the driver forgets what it had taken from other partitions, but not that it
    had taken it. So this begins again at the committed offsets: repeats, but no loss.
    """
    assigned = sorted(consumer.assignment())
    for partition in assigned:
        await _rewind(consumer, partition)
    searching = True
    while searching and assigned:
        searching = False
        for partition in assigned:
            found = await _next(consumer, partition)
            if found is None:
                continue
            yield found
            if isinstance(found, Unreadable):
                return
            searching = True


async def _rewind(consumer: AIOKafkaConsumer, partition: TopicPartition) -> None:
    with translated("return to the committed offset"):
        async with asyncio.timeout(POLL_GRACE_MS / 1000):
            committed = await consumer.committed(partition)
            if committed is None:
                await consumer.seek_to_beginning(partition)
            else:
                consumer.seek(partition, committed)


async def _next(
    consumer: AIOKafkaConsumer, partition: TopicPartition
) -> Record | Unreadable | None:
    try:
        with translated("look for an unreadable record"):
            async with asyncio.timeout((CAREFUL_POLL_MS + POLL_GRACE_MS) / 1000):
                polled = await consumer.getmany(
                    partition, timeout_ms=CAREFUL_POLL_MS, max_records=1
                )
    except (ValueError, IndexError) as error:
        with translated("look for an unreadable record"):
            offset = await consumer.position(partition)
        stand_in = Record(partition.topic, partition.partition, offset, None, None, (), 0)
        return Unreadable(partition, stand_in, Reason("unreadable_record", f"{error}"))
    return next((_record(raw) for batch in polled.values() for raw in batch), None)


def _record(raw: ConsumerRecord[Any, Any]) -> Record:
    return Record(
        topic=raw.topic,
        partition=raw.partition,
        offset=raw.offset,
        key=raw.key,
        value=raw.value,
        headers=_headers(raw.headers),
        timestamp_ms=raw.timestamp,
    )


def _headers(raw: Sequence[tuple[str, bytes | None]]) -> Headers:
    """Return the headers; a null value is legal in Kafka, inside a header always has bytes."""
    if None in map(_VALUE, raw):
        return tuple((name, value or b"") for name, value in raw)
    return tuple(raw)  # type: ignore[arg-type]  # no value is null, as was just seen
