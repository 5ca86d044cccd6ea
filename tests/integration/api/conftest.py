"""Fixtures of the API's integration tests."""

import asyncio
import io
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest
import structlog
from tests.integration.orchestrator.support import Rig, open_rig, order, prepare

from sagabus_cli import app
from sagabus_orchestrator.api.server import HttpServer
from sagabus_runtime import Pulse, logs
from sagabus_testkit.stack import Postgres

from .lines import Line
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


@pytest.fixture
async def url(api: Api) -> AsyncIterator[str]:
    """Where the API answers on a real port; its log goes where no command line writes."""
    logs.configure("sagabus-api", "info", "json", io.StringIO())
    server = HttpServer(api.app, "127.0.0.1", 0, api.backend.metrics)
    server.listen()
    serving = asyncio.create_task(server.run(Pulse("http", 60_000, api.backend.stopping)))
    yield f"http://127.0.0.1:{server.port}"
    api.backend.stopping.set()
    await serving
    structlog.reset_defaults()


@pytest.fixture
def line(
    url: str, prepared: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Line:
    """Run a command line one way and return its exit code and document."""
    monkeypatch.setenv("SAGABUS_TOPIC_PREFIX", "")

    async def run(way: str, *words: str, who: str = "admin") -> tuple[int, dict[str, Any]]:
        monkeypatch.setenv("SAGABUS_API_KEY", who)
        place = ["--api", url] if way == "api" else ["--postgres", prepared]
        capsys.readouterr()
        code = await asyncio.to_thread(app.run, ["--json", *place, *words])
        said = capsys.readouterr()
        return code, json.loads(said.out.splitlines()[-1] if "--watch" in words else said.out)

    return run
