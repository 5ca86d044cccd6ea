"""A consumer is closed for certain, whatever the driver is waiting for."""

import asyncio
from typing import cast

from aiokafka import AIOKafkaConsumer

from sagabus_bus.closing import close_consumer


class Part:
    """A part of the driver with a task that runs until cancelled."""

    def __init__(self, name: str) -> None:
        self.task = asyncio.create_task(asyncio.Event().wait())
        setattr(self, name, self.task)


class Client:
    """As the driver's: `close` ends with the error of the task that keeps the metadata."""

    closed = False
    _sync_task: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._sync_task is not None:
            await self._sync_task
        self.closed = True


class StuckConsumer:
    """As an aiokafka consumer whose broker does not answer: `stop` never comes back."""

    def __init__(self) -> None:
        self._coordinator, self._fetcher = Part("_heartbeat_task"), Part("_fetch_task")
        self._client = Client()

    async def stop(self) -> None:
        await asyncio.Event().wait()


def stuck() -> tuple[StuckConsumer, AIOKafkaConsumer]:
    consumer = StuckConsumer()
    return consumer, cast("AIOKafkaConsumer", consumer)


async def test_no_heartbeat_outlives_a_stop_that_hangs() -> None:
    parts, consumer = stuck()
    trouble = await close_consumer(consumer, 1)
    assert trouble is not None
    assert "TimeoutError" in trouble
    assert parts._coordinator.task.cancelled()
    assert parts._fetcher.task.cancelled()
    assert parts._client.closed


async def test_connections_are_closed_although_a_task_of_the_client_has_died() -> None:
    async def die() -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")

    parts, consumer = stuck()
    parts._client._sync_task = asyncio.create_task(die())

    async def stop() -> None:
        await parts._client.close()

    parts.stop = stop  # type: ignore[method-assign]  # a driver whose broker answers
    trouble = await close_consumer(consumer, 1_000)
    assert trouble is not None
    assert "RuntimeError" in trouble
    assert parts._client.closed


async def test_a_cancelled_close_closes_too_and_stays_cancelled() -> None:
    parts, consumer = stuck()
    closing = asyncio.create_task(close_consumer(consumer, 60_000))
    await asyncio.wait({closing}, timeout=0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    assert parts._coordinator.task.cancelled()
    assert parts._client.closed


async def test_a_clean_stop_says_nothing() -> None:
    parts, consumer = stuck()

    async def stop() -> None: ...

    parts.stop = stop  # type: ignore[method-assign]  # a driver that answers
    assert await close_consumer(consumer, 1_000) is None
    parts._coordinator.task.cancel()
    parts._fetcher.task.cancel()
