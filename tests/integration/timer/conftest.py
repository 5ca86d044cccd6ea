"""One timer database and its topics per test."""

from collections.abc import AsyncIterator

import pytest

from sagabus_testkit import LocalStack

from .support import Bench, bench


@pytest.fixture
async def timer(stack: LocalStack, topic_prefix: str) -> AsyncIterator[Bench]:
    async with bench(stack, topic_prefix) as made:
        yield made
