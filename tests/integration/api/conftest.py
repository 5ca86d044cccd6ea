"""Fixtures of the API's integration tests."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from uuid import uuid4

import pytest
from tests.integration.orchestrator.support import Rig, open_rig, order, prepare

from sagabus_testkit.stack import Postgres

from .support import Api, open_api


@pytest.fixture(scope="session")
def prepared(postgres: Postgres) -> Iterator[str]:
    """DSN of the one database of all these tests: making and dropping one costs seconds."""
    name = f"api_{uuid4().hex[:12]}"
    dsn = postgres.create_database(name)
    asyncio.run(prepare(dsn))
    yield dsn
    postgres.drop_database(name)


@pytest.fixture
async def rig(prepared: str) -> AsyncIterator[Rig]:
    rig = await open_rig(prepared)
    await rig.wipe()
    await rig.watcher.refresh()
    await rig.publish(order())
    yield rig
    await rig.database.close()


@pytest.fixture
async def api(rig: Rig) -> AsyncIterator[Api]:
    async with open_api(rig) as opened:
        yield opened
