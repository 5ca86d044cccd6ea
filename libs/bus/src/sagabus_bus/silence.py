"""Notices when Kafka stopped answering a consumer that goes on asking."""

from __future__ import annotations

import time
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer

from sagabus_bus.errors import BusUnavailable
from sagabus_bus.ports import Pulse

__all__ = ["Silence"]


class Silence:
    """Watches the answers to fetches of an idle consumer.

    The driver retries for ever without a word while the broker is away or its own tasks are
    broken; an empty poll looks the same as an idle topic. Its fetch timestamps tell them apart.
    A consumer without partitions (more members than partitions) has nothing to listen for.
    """

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        silence_ms: int,
        rebuild_after_ms: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._consumer = consumer
        self._silence_ms = silence_ms
        self._rebuild_after_ms = rebuild_after_ms
        self._clock = clock
        self._heard_at = clock()
        self._last: int | None = None

    def reset(self) -> None:
        """Begin again: records came, there is no silence."""
        self._heard_at = self._clock()

    def report(self, pulse: Pulse) -> None:
        """Beat, or excuse a silence; raise `BusUnavailable` when it is time for a new consumer."""
        if _lost_its_metadata(self._consumer):
            raise BusUnavailable("bus_unavailable", "the driver follows no metadata any more")
        latest = self._latest()
        if latest != self._last or latest is None:
            self._last = latest
            self._heard_at = self._clock()
        silent_ms = int((self._clock() - self._heard_at) * 1000)
        if silent_ms > self._rebuild_after_ms:
            raise BusUnavailable("bus_unavailable", f"no answer from Kafka for {silent_ms} ms")
        if silent_ms > self._silence_ms:
            pulse.excuse(f"no answer from Kafka for {silent_ms} ms")
        else:
            pulse.beat()

    def _latest(self) -> int | None:
        """Return the newest answer, 0 before the first, None without partitions."""
        stamps = [
            self._consumer.last_poll_timestamp(partition) or 0
            for partition in self._consumer.assignment()
        ]
        return max(stamps, default=None)


def _lost_its_metadata(consumer: AIOKafkaConsumer) -> bool:
    """Say whether the task has died that learns of moved leaders: fetches would end, unseen."""
    keeper = consumer._client._sync_task  # noqa: SLF001  (the driver tells nobody)
    return keeper is not None and keeper.done()
