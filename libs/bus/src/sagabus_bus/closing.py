"""Closing a driver's consumer for certain: what lingers would go on holding its partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient

from sagabus_bus.errors import BusError, translated

__all__ = ["close_client", "close_consumer"]

FORCE_TIMEOUT_S: Final = 3.0


async def close_consumer(consumer: AIOKafkaConsumer, timeout_ms: int) -> str | None:
    """Leave the group and close. Never hangs; returns what went wrong, if anything did.

    The driver's `stop` waits for a broker that may be away. Cut off there, it leaves its tasks
    running: they heartbeat for a member that nobody polls, so its partitions would stand still.
    """
    try:
        with translated("leave the group"):
            async with asyncio.timeout(timeout_ms / 1000):
                await consumer.stop()
    except BusError as error:
        await _force(consumer)
        return error.detail
    except asyncio.CancelledError:
        await _force(consumer)
        raise
    return None


async def _force(consumer: AIOKafkaConsumer) -> None:
    tasks = set(_tasks(consumer))
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=FORCE_TIMEOUT_S)
    await close_client(consumer._client)  # noqa: SLF001  (`stop` works only once)


async def close_client(client: AIOKafkaClient) -> None:
    """Close every connection of a driver's client. Never raises, never hangs; may be called twice.

    The client's task that keeps the metadata leaves its error, had it died, to whoever awaits it:
    the driver's `close` would end there, with all connections open.
    """
    keeper, client._sync_task = client._sync_task, None  # noqa: SLF001
    if keeper is not None:
        keeper.cancel()
        await asyncio.wait({keeper}, timeout=FORCE_TIMEOUT_S)
        if keeper.done() and not keeper.cancelled():
            keeper.exception()  # looked at: it was told when it was met
    with suppress(BusError), translated("close connections"):
        async with asyncio.timeout(FORCE_TIMEOUT_S):
            await client.close()


def _tasks(consumer: AIOKafkaConsumer) -> Iterator[asyncio.Task[Any]]:
    """Return the driver's background tasks; it has no public way to end them."""
    coordinator, fetcher = consumer._coordinator, consumer._fetcher  # noqa: SLF001
    names = (
        "_coordination_task",
        "_heartbeat_task",
        "_commit_refresh_task",
        "_reset_committed_task",  # of a consumer without a group
    )
    found = [getattr(coordinator, name, None) for name in names]
    found += [getattr(fetcher, "_fetch_task", None), *getattr(fetcher, "_pending_tasks", ())]
    return (task for task in found if isinstance(task, asyncio.Task) and not task.done())
