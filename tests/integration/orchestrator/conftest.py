"""Fixtures of the orchestrator's integration tests."""

from collections.abc import AsyncIterator

import pytest

from .support import Rig, open_rig, order


@pytest.fixture
async def empty_rig(database: str) -> AsyncIterator[Rig]:
    rig = await open_rig(database)
    yield rig
    await rig.database.close()


@pytest.fixture
async def rig(empty_rig: Rig) -> Rig:
    await empty_rig.publish(order())
    return empty_rig
