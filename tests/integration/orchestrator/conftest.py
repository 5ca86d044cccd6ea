"""Fixtures of the orchestrator's integration tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

from sagabus_cli import app
from sagabus_testkit.stack import Postgres

from .support import Rig, Shell, open_rig, order, prepare


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


@pytest.fixture
def shell(prepared: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Return a shell whose commands work on the rig's database and answer in JSON."""

    async def run(*words: str, code: int = 0) -> dict[str, Any]:
        line = ["--json", "--postgres", prepared, "--topic-prefix", "", *words]
        capsys.readouterr()  # what the services of the test have logged
        ended = await asyncio.to_thread(app.run, line)
        said = capsys.readouterr()
        assert ended == code, said.out + said.err
        told = said.out.splitlines()[-1] if "--watch" in words else said.out
        document: dict[str, Any] = json.loads(told)
        return document

    return run
