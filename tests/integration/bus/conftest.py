"""A connection, and topics of its own for each test."""

from collections.abc import AsyncIterator

import pytest

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_testkit import Kafka

from .support import spec


@pytest.fixture
def connection(kafka: Kafka) -> KafkaConnection:
    return KafkaConnection(kafka.bootstrap, "test", request_timeout_ms=5_000)


@pytest.fixture
async def topic(connection: KafkaConnection, topic_prefix: str) -> str:
    name = f"{topic_prefix}.orders"
    async with TopicAdmin(connection) as admin:
        await admin.ensure([spec(name), spec(f"{name}.dlt", max_bytes=2 * 1024 * 1024)])
    return name


@pytest.fixture
async def publisher(connection: KafkaConnection) -> AsyncIterator[Publisher]:
    publisher = Publisher(connection)
    yield publisher
    await publisher.close()
