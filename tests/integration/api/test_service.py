"""The API as a process: ready, killed at the commit, and stopped in good order."""

import asyncio
import json
import os
import signal
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.integration.orchestrator.support import Rig

from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ApiKeys,
    KeyRequest,
    Permission,
    Principal,
    Role,
)
from sagabus_testkit import eventually

from .support import start_body


@dataclass
class Process:
    """A running API."""

    child: asyncio.subprocess.Process
    log: Path

    def said(self, event: str) -> dict[str, object] | None:
        """Return the first log line of an event."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines()]
        return next((line for line in lines if line["event"] == event), None)


@asynccontextmanager
async def running(
    dsn: str, key: str, failpoints: str = ""
) -> AsyncIterator[tuple[Process, httpx.AsyncClient]]:
    environment = {
        **os.environ,
        "SAGABUS_POSTGRES": dsn,
        "SAGABUS_KAFKA": "127.0.0.1:9",  # nothing here needs it
        "SAGABUS_API_PORT": "0",
        "SAGABUS_LOG_FORMAT": "json",
        "SAGABUS_FAILPOINTS": failpoints,
    }
    with tempfile.NamedTemporaryFile() as file:
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "sagabus_orchestrator.api"),
            env=environment,
            stdout=file,
            stderr=file,
        )
        process = Process(child, Path(file.name))
        try:
            await eventually(lambda: process.said("service.ready") is not None, within=60)
            port = (process.said("api.listening") or {})["port"]
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}", headers={"x-api-key": key}, timeout=60
            ) as client:
                yield process, client
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


@pytest.fixture
async def key(rig: Rig) -> str:
    owner = Principal("owner", frozenset(Permission), ALL_TENANTS)
    request = KeyRequest("test", ALL_TENANTS, roles=frozenset({Role.ADMIN}))
    _, text = await ApiKeys(rig.database).create(request, owner)
    return text.reveal()


async def test_killed_behind_the_commit_a_start_is_answered_when_it_comes_again(
    rig: Rig, prepared: str, key: str
) -> None:
    headers = {"idempotency-key": "r-1"}
    async with running(prepared, key, "api.after-start=exit@1") as (process, client):
        with pytest.raises(httpx.TransportError):
            await client.post("/v1/sagas", json=start_body(), headers=headers)
        assert await process.child.wait() == 137
    assert await rig.count("saga") == 1
    async with running(prepared, key) as (_, client):
        again = await client.post("/v1/sagas", json=start_body(), headers=headers)
    assert (again.status_code, again.json()["created"]) == (200, False)
    assert await rig.count("saga") == 1


async def test_it_stops_in_good_order_with_polls_and_streams_open(
    rig: Rig, prepared: str, key: str
) -> None:
    async with running(prepared, key) as (process, client):
        await client.post("/v1/sagas", json=start_body())
        saga = rig.saga("ORD-1")
        polling = asyncio.create_task(
            client.get(f"/v1/sagas/{saga}/outcome", params={"timeout_ms": 60_000})
        )
        async with client.stream("GET", f"/v1/sagas/{saga}/events") as stream:
            lines = stream.aiter_lines()
            assert (await anext(lines)).startswith("id: ")
            process.child.send_signal(signal.SIGTERM)
            rest = [line async for line in lines]
        assert any(line.startswith("data: ") for line in rest)
        answered = await polling
        assert (answered.status_code, answered.json()["settled"]) == (200, False)
        assert await process.child.wait() == 0


async def test_keys_are_asked_for(prepared: str, rig: Rig, key: str) -> None:
    async with running(prepared, key) as (_, client):
        wrong = await client.get("/v1/sagas", headers={"x-api-key": key[:-4] + "0000"})
        assert wrong.status_code == 401
        assert wrong.json()["code"] == "key_invalid"
        assert (await client.get("/v1/sagas")).status_code == 200
