"""The client over HTTP: the same starts, handles and outcomes, without Kafka."""

from __future__ import annotations

import asyncio
import time
import uuid
from types import TracebackType
from typing import Any, Final, Self

import httpx

from sagabus_client.errors import ApiRefused, ApiUnreachable, OutcomePending
from sagabus_client.values import Outcome, SagaHandle, StartCommand
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import MessageError, format_instant, parse_strict
from sagabus_messages.instants import parse_instant
from sagabus_messages.payloads import read_payload, write_payload
from sagabus_messages.strict_json import dump

__all__ = ["HttpClient"]

_POLL_MS: Final = 25_000
"""Shorter than proxies allow a request to be silent."""
_RETRY_S: Final = (0.1, 0.3, 1.0, 2.0)
_REQUEST_S: Final = 10.0


class HttpClient:
    """Starts sagas through the HTTP API and waits for them by long polls.

        async with HttpClient("https://sagas.example", api_key=key) as client:
            handle = await client.start(StartCommand("default", "order", "ORD-1", payload))
            outcome = await client.wait(handle)

    A start is durable when `start` returns. What fails on its way is sent again under the same
    Idempotency-Key, so that nothing starts twice. Give an `api_key` or a bearer `token`.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        token: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        if (api_key is None) == (token is None):
            raise InvalidValue("invalid_credentials", "give either an API key or a bearer token")
        for given in (api_key, token):
            # Else the HTTP library refuses the header in words that quote it.
            if given is not None and not (given.strip().isascii() and given.strip().isprintable()):
                raise InvalidValue("invalid_credentials", "a key or token is one line of ASCII")
        secret = {"x-api-key": api_key.strip()} if api_key is not None else {}
        if token is not None:
            secret = {"authorization": f"Bearer {token.strip()}"}
        self._http = httpx.AsyncClient(
            base_url=url, headers=secret, timeout=_REQUEST_S, transport=transport
        )

    async def __aenter__(self) -> Self:
        await self._http.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.__aexit__(kind, error, trace)

    async def start(self, command: StartCommand) -> SagaHandle:
        """Start a saga, or find the one that an equal request has started.

        `start_id` of the command, or a new one, is the Idempotency-Key. Raises `ApiRefused` with
        the stable code (`request_conflict`, `tenant_quota_exceeded`, ...), and `ApiUnreachable`:
        then send the same command again under the same start id.
        """
        key = command.start_id or str(uuid.uuid4())
        sent_at_ms = int(time.time() * 1000)
        headers = {"idempotency-key": key, "content-type": "application/json"}
        answer = await self._send("POST", "/v1/sagas", content=_body(command), headers=headers)
        return SagaHandle(
            saga_id=answer["saga_id"],
            tenant=command.tenant,
            workflow=command.workflow,
            business_key=command.business_key,
            start_id=answer["start_id"],
            started_at_ms=sent_at_ms,
        )

    async def get(self, handle: SagaHandle) -> Outcome:
        """Return where a saga stands now. Raises `ApiRefused` (`not_found`), `ApiUnreachable`."""
        return _outcome(handle, await self._outcome(handle, 0))

    async def wait(self, handle: SagaHandle, timeout_s: float | None = None) -> Outcome:
        """Return the outcome of a saga: ended, or waiting for an operator.

        Raises `OutcomePending` after `timeout_s`; the saga goes on and may be waited for again.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_ms = _POLL_MS
            if deadline_s is not None:
                left_ms = min(_POLL_MS, max(0, int((deadline_s - time.monotonic()) * 1000)))
            outcome = _outcome(handle, await self._outcome(handle, left_ms))
            if outcome.is_settled:
                return outcome
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise OutcomePending(
                    "outcome_pending",
                    f"{handle.business_key} has no outcome yet: {outcome.status}",
                )

    async def _outcome(self, handle: SagaHandle, timeout_ms: int) -> dict[str, Any]:
        return await self._send(
            "GET",
            f"/v1/sagas/{handle.saga_id}/outcome",
            params={"timeout_ms": timeout_ms},
            timeout=_REQUEST_S + timeout_ms / 1000,
        )

    async def _send(self, method: str, path: str, **options: Any) -> dict[str, Any]:  # noqa: ANN401  # httpx's own
        """Send until it is answered or refused; what an outage ate is sent again, five times."""
        for pause_s in (*_RETRY_S, None):
            error = await self._attempt(method, path, options)
            if isinstance(error, dict):
                return error
            if not error.retryable or pause_s is None:
                raise error
            await asyncio.sleep(pause_s)
        raise ApiUnreachable("api_unreachable", "the API did not answer")

    async def _attempt(
        self, method: str, path: str, options: dict[str, Any]
    ) -> dict[str, Any] | ApiRefused | ApiUnreachable:
        try:
            response = await self._http.request(method, path, **options)
        except httpx.TransportError as error:
            return ApiUnreachable(
                "api_unreachable", f"the API did not answer: {type(error).__name__}"
            )
        body = _object(response)
        if response.is_success:
            return body
        if response.status_code >= 500:
            return ApiUnreachable("api_unreachable", f"the API answered {response.status_code}")
        code = str(body.get("code", "api_refused"))
        return ApiRefused(code, str(body.get("detail", f"status {response.status_code}")))


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        found = parse_strict(response.content)
    except MessageError:
        return {}
    return found if isinstance(found, dict) else {}


def _body(command: StartCommand) -> bytes:
    members: dict[str, object] = {
        "tenant": command.tenant,
        "workflow": command.workflow,
        "business_key": command.business_key,
    }
    if command.version is not None:
        members["definition_version"] = command.version
    if command.deadline_at_ms is not None:
        members["deadline_at"] = format_instant(command.deadline_at_ms)
    if command.payload is not None:
        members["payload"] = write_payload(command.payload)
    return dump(members)


def _outcome(handle: SagaHandle, body: dict[str, Any]) -> Outcome:
    output = body["output"]
    return Outcome(
        handle=handle,
        status=SagaStatus(body["status"]),
        occurred_at_ms=parse_instant(body["updated_at"]),
        reason_code=body["reason_code"],
        output=read_payload(output, None) if output is not None else None,
        revision=body["revision"],
    )
