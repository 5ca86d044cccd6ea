"""The client over HTTP: the same outcomes as over Kafka, nothing twice when answers are lost."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest
from tests.integration.orchestrator.support import commands, lifecycle

from sagabus_client import (
    ApiRefused,
    ApiUnreachable,
    Followed,
    HttpClient,
    OutcomePending,
    StartCommand,
)
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import ResultStatus, SagaStatus
from sagabus_messages import json_payload
from sagabus_testkit import TcpProxy, eventually

from .support import Api

ORDER = StartCommand("acme", "order", "ORD-1", json_payload({"sku": "widget"}, "order.v1"))


class Losing(httpx.AsyncBaseTransport):
    """Hands requests over and loses the first answers."""

    def __init__(self, inner: httpx.AsyncBaseTransport, lost: int) -> None:
        self._inner = inner
        self._lost = lost

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        response = await self._inner.handle_async_request(request)
        if self._lost:
            self._lost -= 1
            await response.aread()
            raise httpx.ReadError("the connection broke")
        return response


def client(api: Api, *, lost: int = 0, who: str = "admin") -> HttpClient:
    transport = httpx.ASGITransport(api.app, raise_app_exceptions=False)
    return HttpClient("http://api", api_key=who, transport=Losing(transport, lost))


async def test_start_and_wait(api: Api) -> None:
    async with client(api) as sagas:
        handle = await sagas.start(ORDER)
        assert handle.saga_id == api.rig.saga("ORD-1")
        assert (await sagas.get(handle)).status is SagaStatus.RUNNING
        with pytest.raises(OutcomePending):
            await sagas.wait(handle, timeout_s=0.01)
        waiting = asyncio.create_task(sagas.wait(handle, timeout_s=60))
        (command,) = commands(await api.rig.read_outbox())
        await api.rig.process(api.rig.result_record(command, ResultStatus.REJECTED))
        outcome = await waiting
    assert (outcome.status, outcome.is_terminal) == (SagaStatus.COMPENSATED, True)
    assert outcome.reason_code


async def test_a_lost_answer_starts_nothing_twice(api: Api) -> None:
    async with client(api, lost=2) as sagas:
        handle = await sagas.start(ORDER)
    (told,) = lifecycle(await api.rig.read_outbox())
    assert told.start_id == handle.start_id
    assert await api.rig.count("saga") == 1


async def test_a_refusal_has_its_code(api: Api) -> None:
    async with client(api) as sagas:
        await sagas.start(ORDER)
        other = StartCommand(
            "acme", "order", "ORD-1", ORDER.payload, deadline_at_ms=4_000_000_000_000
        )
        with pytest.raises(ApiRefused) as refused:
            await sagas.start(other)
    assert refused.value.code == "request_conflict"
    async with client(api, who="nobody") as strangers:
        with pytest.raises(ApiRefused) as unknown:
            await strangers.start(ORDER)
    assert unknown.value.code == "credentials_missing"


async def test_an_api_that_never_answers(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sagabus_client.http._RETRY_S", (0.001,) * 4)
    async with client(api, lost=99) as sagas:
        with pytest.raises(ApiUnreachable):
            await sagas.start(ORDER)
    with pytest.raises(InvalidValue):
        HttpClient("http://api")


async def test_changes_are_followed_over_outages_each_once(api: Api, url: str) -> None:
    port = urlsplit(url).port
    assert port is not None
    states: list[ApiUnreachable | None] = []
    told: list[tuple[str, str]] = []
    async with (
        TcpProxy(port) as proxy,
        HttpClient(f"http://127.0.0.1:{proxy.port}", api_key="admin") as sagas,
    ):

        async def follow() -> None:
            async for change in sagas.follow(Followed("acme"), on_state=states.append):
                told.append((change.business_key, change.status.value))

        following = asyncio.create_task(follow())
        await eventually(lambda: states == [None])
        await api.start("A")
        await eventually(lambda: told == [("A", "RUNNING")])
        await proxy.refuse()
        await eventually(lambda: len(states) == 2)
        assert states[1] is not None
        await api.start("B")
        await api.start("C", tenant="globex")
        await proxy.restore()
        await eventually(lambda: told == [("A", "RUNNING"), ("B", "RUNNING")])
        assert states[2:] == [None]
        proxy.cut()  # another stream opens at once: that is no outage
        await api.start("D")
        await eventually(lambda: told[2:] == [("D", "RUNNING")])
        assert states[3:] == [None]
        following.cancel()
        await proxy.refuse()
        with pytest.raises(ApiUnreachable, match="gave up after"):
            await anext(sagas.follow(outage_s=0.3))


async def test_who_may_not_follow_is_told_so(url: str) -> None:
    async with HttpClient(url, api_key="starter") as sagas:
        with pytest.raises(ApiRefused, match="permission_denied"):
            await anext(sagas.follow())
