"""The edge on a real port: what a peer can drag out, inflate, repeat or lie about."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from sagabus_orchestrator.api.limits import BodyLimit
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.server import HttpServer
from sagabus_orchestrator.api.shares import Share, Shares
from sagabus_orchestrator.api.wire import WireLimits
from sagabus_runtime import Pulse
from sagabus_testkit import eventually

from .support import Api, problem, start_body
from .test_bulk import question

DEADLINE_S = 10
LIMITS = WireLimits(head_bytes=8_192, headers=20, head_s=0.3, body_s=0.3, send_s=0.3)
GET = b"GET /v1/sagas HTTP/1.1\r\nhost: api\r\nx-api-key: admin\r\n"
POST = b"POST /v1/sagas HTTP/1.1\r\nhost: api\r\nx-api-key: admin\r\n"
JSON = b"content-type: application/json\r\n"


@asynccontextmanager
async def serving(app: ASGIApp) -> AsyncIterator[int]:
    server = HttpServer(app, "127.0.0.1", 0, ApiMetrics(CollectorRegistry()), LIMITS)
    server.listen()
    stopping = asyncio.Event()
    running = asyncio.create_task(server.run(Pulse("http", 60_000, stopping)))

    async def answers() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await eventually(answers)
        yield server.port
    finally:
        stopping.set()
        await running


@pytest.fixture
async def port(api: Api) -> AsyncIterator[int]:
    async with serving(BodyLimit(api.app, within_s=0.3)) as port:
        yield port


async def exchange(port: int, *pieces: bytes) -> bytes:
    """Send pieces, and return all that comes until the other side has closed."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        async with asyncio.timeout(DEADLINE_S):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def told(answer: bytes) -> tuple[int, str]:
    """Return status and code of the only answer."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"application/problem+json" in head, answer
    document = json.loads(body)
    assert head.startswith(f"HTTP/1.1 {document['status']} ".encode())
    return document["status"], document["code"]


async def test_heads_have_an_end(port: int) -> None:
    many = b"".join(b"x-%d: 1\r\n" % n for n in range(30))
    for pieces in (
        (GET, b"x-large: " + b"x" * 9_000 + b"\r\n\r\n"),
        (GET, b"x" * 9_000),
        (GET, b"x-endless: ", b"x" * 9_000),
        (b"GET /v1/sagas?" + b"x" * 9_000,),
        (GET, many, b"\r\n"),
    ):
        assert told(await exchange(port, *pieces)) == (431, "head_too_large"), pieces[-1][:20]
    for pieces in (
        (b"\0\0\0\0\r\n\r\n",),
        (b"GET / HTTP/9.9\r\n\r\n",),
        (b"CONNECT : HTTP/1.1\r\n\r\n",),
    ):
        assert told(await exchange(port, *pieces)) == (400, "invalid_request"), pieces


async def test_nobody_takes_longer_to_ask_than_they_may(port: int) -> None:
    assert await exchange(port) == b""
    assert await exchange(port, b"\r\n") == b""
    assert told(await exchange(port, GET)) == (408, "request_timeout")
    slow = await exchange(port, POST + JSON + b"content-length: 5\r\n\r\n", b"{")
    assert told(slow) == (408, "request_timeout")
    assert b"connection: close" in slow
    assert b"retry-after: 1" in slow
    chunked = POST + JSON + b"transfer-encoding: chunked\r\n\r\n"
    assert told(await exchange(port, chunked, b"1\r\n{\r\n")) == (408, "request_timeout")
    anonymous = b"POST /v1/sagas HTTP/1.1\r\nhost: api\r\ncontent-length: 5\r\n\r\n{"
    assert (await exchange(port, anonymous)).startswith(b"HTTP/1.1 401 ")
    second = await exchange(port, GET + b"\r\n", b"GET /v1")
    assert second.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "head",
    [
        b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}x",
        b"content-length: +2\r\n\r\n{}",
        b"content-length: -1\r\n\r\n",
        b"content-length: 2, 2\r\n\r\n{}",
        b"content-length: 99999999999999999999999\r\n\r\n",
        b"transfer-encoding: identity, chunked, identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding:\tchunked\r\nx: \n\r\n\r\n",
        b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
        b"transfer-encoding: chunked\r\n\r\n-1\r\n{}\r\n",
        b"x-folded: a\r\n b\r\n\r\n",
    ],
    ids=str,
)
async def test_no_shape_of_a_body_is_understood_in_two_ways(port: int, head: bytes) -> None:
    answer = await exchange(port, POST + JSON + head + GET + b"connection: close\r\n\r\n")
    assert len(re.findall(rb"HTTP/1\.1 [0-9]{3}", answer)) <= 1, answer
    assert b"HTTP/1.1 200" not in answer


async def test_a_trailer_is_no_header(api: Api, port: int) -> None:
    body = json.dumps(start_body()).encode()
    chunked = JSON + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n"
    framed = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
    for _ in range(2):
        answer = await exchange(port, POST + chunked + framed + b"idempotency-key: r-1\r\n\r\n")
        assert answer.startswith((b"HTTP/1.1 201", b"HTTP/1.1 200")), answer
    assert await api.rig.count("start_request") == 0
    anonymous = POST.replace(b"x-api-key: admin\r\n", b"")
    answer = await exchange(port, anonymous + chunked + framed + b"x-api-key: admin\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 401")


async def test_what_cannot_be_parsed_is_not_answered_between_other_answers(
    api: Api, port: int
) -> None:
    await api.start()
    poll = f"/v1/sagas/{api.rig.saga('ORD-1')}/outcome?timeout_ms=60000"
    asked = b"GET %s HTTP/1.1\r\nhost: api\r\nx-api-key: admin\r\n\r\n" % poll.encode()
    assert await exchange(port, asked, b"\0nonsense\r\n\r\n") == b""


async def test_a_caller_has_its_share_of_what_waits_and_others_theirs(api: Api, port: int) -> None:
    metrics = ApiMetrics(CollectorRegistry())
    scans = Share("scans", metrics, most_each=1, most=2)
    shares = Shares(
        requests=Share("requests", metrics, most_each=3),
        waits=Share("waits", metrics, most_each=2),
        scans=scans,
    )
    api.app.state.backend = replace(api.backend, shares=shares)
    await api.start()
    where = f"http://127.0.0.1:{port}/v1/sagas/{api.rig.saga('ORD-1')}"
    viewer, other = {"x-api-key": "viewer"}, {"x-api-key": "acme"}
    waiting = {"timeout_ms": 60_000}
    async with httpx.AsyncClient(timeout=30) as client:
        poll = asyncio.create_task(client.get(f"{where}/outcome", params=waiting, headers=viewer))
        await eventually(lambda: bool(api.backend.watch._waiters))
        async with client.stream("GET", f"{where}/events", headers=viewer) as stream:
            assert stream.status_code == 200
            for path, query in (("/events", {}), ("/outcome", waiting)):
                refused = await client.get(where + path, params=query, headers=viewer)
                assert problem(refused) == (429, "caller_busy")
                assert refused.headers["retry-after"] == "1"
            assert (await client.get(where, headers=viewer)).status_code == 200
            slow = asyncio.create_task(
                exchange(
                    port, POST.replace(b"admin", b"viewer") + JSON + b"content-length: 5\r\n\r\n{"
                )
            )
            assert told(await slow)[0] in {403, 408}
            async with client.stream("GET", f"{where}/events", headers=other) as theirs:
                assert theirs.status_code == 200

        async def again() -> bool:
            async with client.stream("GET", f"{where}/events", headers=viewer) as stream:
                return stream.status_code == 200

        await eventually(again)
        with scans.held_by("key:admin"):
            for place in ("/bulk-operations", "/bulk-operations/preview"):
                refused = await api.post(place, question())
                assert problem(refused) == (429, "caller_busy")
            with scans.held_by("key:other"):
                refused = await api.post("/bulk-operations/preview", question(), who="acme")
                assert problem(refused) == (503, "api_busy")
        assert (await api.post("/bulk-operations/preview", question())).status_code == 200
        api.backend.stopping.set()
        assert (await poll).status_code == 200


async def test_a_reader_that_stalls_is_cut_off() -> None:
    gone = asyncio.Event()

    async def endless(scope: Any, receive: Any, send: Any) -> None:
        del scope
        start = {"type": "http.response.start", "status": 200, "headers": []}
        await send(start)

        async def write() -> None:
            for _ in range(1_000):  # far more than the buffers on the way hold
                await send({"type": "http.response.body", "body": b"x" * 65_536, "more_body": True})

        writing = asyncio.create_task(write())
        while (await receive())["type"] != "http.disconnect":
            pass
        writing.cancel()
        gone.set()

    async with serving(endless) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1_024)
        writer.write(GET + b"\r\n")
        async with asyncio.timeout(DEADLINE_S):
            await gone.wait()
        writer.close()
