"""An API without room for this caller is asked again, as its answer allows."""

import httpx
import pytest

from sagabus_client import ApiRefused, ApiUnreachable, HttpClient, StartCommand

COMMAND = StartCommand("acme", "order", "ORD-1")


def problem(status: int, code: str, *, retryable: bool) -> httpx.Response:
    return httpx.Response(status, json={"code": code, "detail": "x", "retryable": retryable})


def answering(*answers: httpx.Response) -> HttpClient:
    left = list(answers)
    transport = httpx.MockTransport(lambda _: left.pop(0))
    return HttpClient("http://127.0.0.1:1", api_key="k", transport=transport)


@pytest.mark.parametrize(("status", "code"), [(429, "caller_busy"), (408, "request_timeout")])
async def test_it_is_asked_again(status: int, code: str) -> None:
    full = problem(status, code, retryable=True)
    done = httpx.Response(201, json={"saga_id": "s", "start_id": "t"})
    async with answering(full, full, done) as client:
        assert (await client.start(COMMAND)).saga_id == "s"


async def test_it_is_given_up_by_the_code_of_the_api() -> None:
    full = problem(429, "caller_busy", retryable=True)
    async with answering(*[full] * 5) as client:
        with pytest.raises(ApiUnreachable) as found:
            await client.start(COMMAND)
    assert found.value.code == "caller_busy"


async def test_a_limit_of_the_tenant_is_a_refusal() -> None:
    async with answering(problem(429, "rate_limit_exceeded", retryable=False)) as client:
        with pytest.raises(ApiRefused) as found:
            await client.start(COMMAND)
    assert found.value.code == "rate_limit_exceeded"
