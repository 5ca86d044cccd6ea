"""The Kafka edge of a consumer: one supervised loop that commits only what is durable.

It drives aiokafka itself. A framework's loop (FastStream 0.7) hides what must be seen here: it
swallows fatal errors of the consumer and tries again for ever, cannot tell a poll that never
returns from an idle topic, loses what a failed parser had taken, and sleeps after empty polls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import CommitFailedError, IllegalStateError

from sagabus_bus.admin import TopicAdmin
from sagabus_bus.closing import close_consumer
from sagabus_bus.connection import KafkaConnection
from sagabus_bus.consuming import UnreadableRecord, find_unreadable, poll
from sagabus_bus.errors import WorkInterrupted, translated
from sagabus_bus.events import BusMetrics, ConsumerEvents
from sagabus_bus.metadata import pace_metadata
from sagabus_bus.meter import ConsumerMeter
from sagabus_bus.patience import fetch_patiently
from sagabus_bus.ports import BatchHandler, Pulse
from sagabus_bus.security import opening
from sagabus_bus.silence import Silence
from sagabus_bus.worker import BatchWorker, WorkerOptions
from sagabus_messages.record import Record
from sagabus_runtime.failpoints import reach

__all__ = ["BatchSubscriber", "Subscription"]

FAILPOINT_BEFORE_PROCESS: Final = "bus.before-process"
FAILPOINT_BEFORE_COMMIT: Final = "bus.before-commit"

# The driver leaves the group when nobody polls for this long. Holding a batch through an outage
# is our normal behaviour, so the driver must never do that: `run` is supervised by its beats.
_NEVER_EVICT_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Subscription:
    """A consumer group and the complete names of the topics that it reads.

    `isolation`: `read_committed` where the relay writes with transactions. `poll_ms` bounds how
    long a stop takes on an idle topic; `fetch_wait_ms` how long a partition that was just drained
    waits before it is fetched again (longer fetches are those that no partition waits for).
    """

    group: str
    topics: tuple[str, ...]
    isolation: str = "read_committed"
    max_records: int = 500
    poll_ms: int = 200
    fetch_wait_ms: int = 20
    session_timeout_ms: int = 10_000
    heartbeat_ms: int = 1_000
    open_timeout_ms: int = 30_000
    commit_timeout_ms: int = 10_000
    silence_ms: int = 5_000
    rebuild_after_ms: int = 45_000


class BatchSubscriber:
    """Reads topics in batches and hands them to a handler, at least once.

    Offsets are committed after `process` returned, and only then; a record is skipped only when
    its dead letter is durable. One member per object; run several processes for more.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        subscription: Subscription,
        handler: BatchHandler,
        *,
        options: WorkerOptions | None = None,
        metrics: BusMetrics | None = None,
    ) -> None:
        self._connection = connection
        self._subscription = subscription
        self._events = ConsumerEvents(subscription.group, metrics)
        self._meter = ConsumerMeter(subscription.group, self._events.metrics)
        self._worker = BatchWorker(handler, self._events, options)

    async def run(self, pulse: Pulse) -> None:
        """Consume until `pulse.stopping`, then finish the batch in hand, commit, leave the group.

        A `run` of `sagabus_runtime.lifecycle.Loop`: opens its consumer inside and may be
        cancelled and run again. Raises retryable errors to be run again: `BusUnavailable`,
        `TopicUnavailable`, `BusMisconfigured`.
        """
        async with TopicAdmin(self._connection) as admin:
            await admin.require(self._subscription.topics)
        consumer = self._build()
        try:
            await self._open(consumer)
            await self._consume(consumer, pulse)
        except WorkInterrupted:
            return  # asked to stop in an outage: nothing is committed, the batch comes again
        finally:
            self._meter.close()
            trouble = await close_consumer(consumer, self._connection.request_timeout_ms)
            if trouble is not None:
                self._events.close_failed(trouble)

    def _build(self) -> AIOKafkaConsumer:
        wanted = self._subscription
        consumer = AIOKafkaConsumer(
            *wanted.topics,
            **self._connection.options(),
            group_id=wanted.group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level=wanted.isolation,
            fetch_max_wait_ms=wanted.fetch_wait_ms,
            session_timeout_ms=wanted.session_timeout_ms,
            heartbeat_interval_ms=wanted.heartbeat_ms,
            max_poll_interval_ms=_NEVER_EVICT_MS,
            # Equal partition counts and equal assignments: a saga's topics meet in one member.
            partition_assignment_strategy=(RangePartitionAssignor,),
        )
        pace_metadata(consumer._client)  # noqa: SLF001  (no public way to it)
        return consumer

    async def _open(self, consumer: AIOKafkaConsumer) -> None:
        async with opening(self._connection, f"join group {self._subscription.group}"):
            async with asyncio.timeout(self._subscription.open_timeout_ms / 1000):
                await consumer.start()
        fetch_patiently(consumer)

    async def _consume(self, consumer: AIOKafkaConsumer, pulse: Pulse) -> None:
        wanted = self._subscription
        silence = Silence(consumer, wanted.silence_ms, wanted.rebuild_after_ms)
        while not pulse.stopping:
            try:
                records = await poll(consumer, wanted.poll_ms, wanted.max_records)
            except UnreadableRecord as unreadable:
                await self._step_over(consumer, unreadable, pulse)
                continue
            if records:
                await self._settle(consumer, records, pulse)
                silence.reset()
            await self._meter.look(consumer)
            silence.report(pulse)

    async def _settle(
        self, consumer: AIOKafkaConsumer, records: Sequence[Record], pulse: Pulse
    ) -> None:
        def owns(record: Record) -> bool:
            return TopicPartition(record.topic, record.partition) in consumer.assignment()

        await reach(FAILPOINT_BEFORE_PROCESS)
        with self._meter.handling(records):
            await self._worker.work(records, pulse, owns)
        await reach(FAILPOINT_BEFORE_COMMIT)
        await self._commit(consumer)

    async def _commit(self, consumer: AIOKafkaConsumer) -> None:
        """Commit the positions: one poll is in hand at a time, so they are its end."""
        with translated("commit offsets"):
            try:
                # Without a bound a rebalance that never ends would hold the loop for ever.
                async with asyncio.timeout(self._subscription.commit_timeout_ms / 1000):
                    await consumer.commit()
            except (CommitFailedError, IllegalStateError) as error:
                self._events.commit_lost(type(error).__name__)

    async def _step_over(
        self, consumer: AIOKafkaConsumer, unreadable: UnreadableRecord, pulse: Pulse
    ) -> None:
        """Find what the driver cannot decode, handling record by record what comes before it."""
        self._events.unreadable(unreadable.detail)
        async for found in find_unreadable(consumer):
            if isinstance(found, Record):
                await self._settle(consumer, [found], pulse)
                continue
            await self._worker.set_aside(found.stand_in, found.reason, pulse)
            consumer.seek(found.partition, found.stand_in.offset + 1)
            await self._commit(consumer)
