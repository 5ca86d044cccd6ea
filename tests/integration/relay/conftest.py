"""One outbox and one relay database per test."""

from collections.abc import AsyncIterator

import pytest

from sagabus_testkit import LocalStack

from .support import Bench, bench, make_topic


@pytest.fixture
async def orders(stack: LocalStack, topic_prefix: str) -> AsyncIterator[Bench]:
    async with bench(stack, topic_prefix) as made:
        await make_topic(stack, made.topic)
        yield made
