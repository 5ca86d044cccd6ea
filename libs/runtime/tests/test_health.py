"""The health endpoints tell the truth in JSON."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from sagabus_runtime import Health, HealthServer, new_registry
from sagabus_runtime import health as health_module

pytestmark = pytest.mark.enable_socket


@pytest.fixture
async def health() -> Health:
    health = Health(new_registry())
    health.unready = None
    return health


@pytest.fixture
async def server(health: Health) -> AsyncIterator[HealthServer]:
    server = HealthServer(health)
    await server.start()
    yield server
    await server.close()


async def ask(server: HealthServer, path: str, method: str = "GET") -> tuple[int, str]:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
    answer = (await reader.read()).decode()
    writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    return int(head.split()[1]), body


async def test_ready_names_every_failing_check(health: Health, server: HealthServer) -> None:
    async def fine() -> str | None:
        return None

    async def down() -> str | None:
        return "Postgres is away"

    async def broken() -> str | None:
        raise KeyError("x")

    health.add_check("fine", fine)
    assert await ask(server, "/ready") == (200, '{"failing": {}, "ready": true}')
    health.add_check("postgres", down)
    health.add_check("broken", broken)
    health.unready = "stopping"
    status, body = await ask(server, "/ready")
    assert status == 503
    assert json.loads(body)["failing"] == {
        "postgres": "Postgres is away",
        "broken": "the check failed: KeyError",
        "service": "stopping",
    }


async def test_a_check_that_hangs_is_a_failing_check(
    health: Health, server: HealthServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hangs() -> str | None:
        await asyncio.Event().wait()
        return None

    monkeypatch.setattr(health_module, "CHECK_TIMEOUT_S", 0.01)
    health.add_check("slow", hangs)
    status, body = await ask(server, "/ready")
    assert (status, json.loads(body)["failing"]["slow"]) == (
        503,
        "the check did not answer in time",
    )


async def test_a_silent_loop_is_not_live_and_an_excused_one_is_not_ready(
    health: Health, server: HealthServer
) -> None:
    now = 0.0
    pulse = health.pulse("consume", deadline_ms=1000)
    pulse._clock = lambda: now
    pulse.beat()
    assert (await ask(server, "/live"))[0] == 200
    now = 1.5
    status, body = await ask(server, "/live")
    assert (status, list(json.loads(body)["stalled"])) == (503, ["consume"])
    pulse.excuse("Kafka is away")
    assert (await ask(server, "/live"))[0] == 200
    assert json.loads((await ask(server, "/ready"))[1])["failing"] == {"consume": "Kafka is away"}
    pulse.beat()
    assert (await ask(server, "/ready"))[0] == 200


async def test_metrics_and_nonsense(health: Health, server: HealthServer) -> None:
    health.pulse("consume", 1000)
    status, body = await ask(server, "/metrics?x=1")
    assert status == 200
    assert 'sagabus_loop_beat_age_seconds{loop="consume"}' in body
    assert "sagabus_ready 1.0" in body
    assert (await ask(server, "/"))[0] == 404
    assert (await ask(server, "/live", "POST"))[0] == 405


async def test_a_client_that_hangs_up_disturbs_nobody(server: HealthServer) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET /li")
    writer.close()
    assert (await ask(server, "/live"))[0] == 200
