"""The driver may ask for metadata as often as it likes: it is not asked of the brokers as often."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient

from sagabus_bus.metadata import pace_metadata

PAUSE_MS = 20


class Brokers:
    """Brokers that refuse every connection at once."""

    def __init__(self) -> None:
        self.asked = 0

    async def refuse(self, *_: Any) -> bool:
        self.asked += 1
        return False


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture
async def client(brokers: Brokers) -> AsyncIterator[AIOKafkaClient]:
    client = AIOKafkaClient(bootstrap_servers="127.0.0.1:1")
    vars(client)["_metadata_update"] = brokers.refuse
    updating = asyncio.create_task(client._md_synchronizer())
    pace_metadata(client, PAUSE_MS)
    yield client
    updating.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await updating


async def test_updates_in_a_row_are_apart(client: AIOKafkaClient, brokers: Brokers) -> None:
    begun = asyncio.get_running_loop().time()
    for _ in range(6):
        assert await client.force_metadata_update() is False
    assert asyncio.get_running_loop().time() - begun >= 5 * PAUSE_MS / 1000
    assert brokers.asked == 6


async def test_updates_at_once_are_one(client: AIOKafkaClient, brokers: Brokers) -> None:
    await client.force_metadata_update()
    answers = await asyncio.gather(*(client.force_metadata_update() for _ in range(20)))
    assert answers == [False] * 20
    assert brokers.asked == 2


async def test_a_waiter_that_gives_up_takes_nobody_with_it(
    client: AIOKafkaClient, brokers: Brokers
) -> None:
    await client.force_metadata_update()
    impatient, patient = client.force_metadata_update(), client.force_metadata_update()
    impatient.cancel()
    assert await patient is False
