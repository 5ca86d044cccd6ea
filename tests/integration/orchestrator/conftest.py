"""Fixtures of the orchestrator's integration tests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest

from sagabus_testkit.stack import Postgres

from .support import Rig, open_rig, order, prepare


@pytest.fixture(scope="session")
def prepared(postgres: Postgres) -> Iterator[str]:
    """DSN of the one database of all these tests: making and dropping one costs seconds."""
    name = f"orchestrator_{uuid4().hex[:12]}"
    dsn = postgres.create_database(name)
    asyncio.run(prepare(dsn))
    yield dsn
    postgres.drop_database(name)


@pytest.fixture
async def empty_rig(prepared: str) -> AsyncIterator[Rig]:
    rig = await open_rig(prepared)
    await rig.wipe()
    await rig.watcher.refresh()
    yield rig
    await rig.database.close()


@pytest.fixture
async def rig(empty_rig: Rig) -> Rig:
    await empty_rig.publish(order())
    return empty_rig
