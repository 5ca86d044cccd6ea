"""The client over HTTP: the same starts, handles and outcomes, without Kafka."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import httpx

from sagabus_client.documents import outcome_of, start_body
from sagabus_client.errors import ApiRefused, ApiUnreachable, OutcomePending
from sagabus_client.following import (
    OUTAGE_S,
    Followed,
    Patience,
    ServerEvent,
    StatusChange,
    read_events,
)
from sagabus_client.requests import Request
from sagabus_client.values import Outcome, SagaHandle, StartCommand
from sagabus_core import ids
from sagabus_core.errors import InvalidValue
from sagabus_messages import MessageError, parse_strict
from sagabus_runtime.names import FIELD_SAGA_ID, SPAN_START
from sagabus_runtime.telemetry import Tracing, running

__all__ = ["HttpClient"]

_POLL_MS: Final = 25_000
"""Shorter than proxies allow a request to be silent."""
_CROWDED: Final = frozenset({408, 429})
"""Of these the API says itself whether the same may be sent again."""
_RETRY_S: Final = (0.1, 0.3, 1.0, 2.0)
_REQUEST_S: Final = 10.0
_STREAM_TIMEOUT: Final = httpx.Timeout(_REQUEST_S, read=45.0)
"""A stream shows every 15 seconds that it lives; one that is silent for longer is dead."""
EVERYTHING: Final = Followed()


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
        saga_id = ids.saga_id(command.tenant, command.workflow, command.business_key)
        fields = {FIELD_SAGA_ID: saga_id, "workflow": command.workflow}
        here, span = Tracing.of_host().begin_here(SPAN_START, fields)  # around all attempts
        with running(span):
            request = Request("POST", "/v1/sagas", "/v1/sagas", here)
            answer = await self._send(request, content=start_body(command), headers=headers)
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
        return outcome_of(handle, await self._outcome(handle, 0))

    async def wait(self, handle: SagaHandle, timeout_s: float | None = None) -> Outcome:
        """Return the outcome of a saga: ended, or waiting for an operator.

        Raises `OutcomePending` after `timeout_s`; the saga goes on and may be waited for again.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left_ms = _POLL_MS
            if deadline_s is not None:
                left_ms = min(_POLL_MS, max(0, int((deadline_s - time.monotonic()) * 1000)))
            outcome = outcome_of(handle, await self._outcome(handle, left_ms))
            if outcome.is_settled:
                return outcome
            if deadline_s is not None and time.monotonic() >= deadline_s:
                raise OutcomePending(
                    "outcome_pending",
                    f"{handle.business_key} has no outcome yet: {outcome.status}",
                )

    async def follow(
        self,
        followed: Followed = EVERYTHING,
        *,
        behind: int | None = None,
        outage_s: float = OUTAGE_S,
        on_state: Callable[[ApiUnreachable | None], None] = lambda _: None,
    ) -> AsyncIterator[StatusChange]:
        """Yield changes of status, from now on or behind an event, each once and in their order.

        Never ends by itself: what cuts the stream is followed by another one that goes on behind
        the last event. `on_state` hears None whenever a stream has opened (every change from then
        on, or since the last one, will come), and the error once an outage has begun. Raises
        `ApiUnreachable` when it has lasted `outage_s` seconds, `ApiRefused` (`events_gone`: read
        the sagas anew and follow from now on; `permission_denied`, `key_revoked`, ...).
        """
        patience, place = Patience(outage_s), _Place(behind)

        def opened() -> None:
            patience.answered()
            place.failures = -1  # the cut that ends this stream is no outage yet
            on_state(None)

        while True:
            error = ApiUnreachable("api_unreachable", "the API ended the stream")
            try:
                async for change in self._changes(followed, place, opened):
                    yield change
            except ApiUnreachable as outage:
                error = outage
            place.failures += 1
            pause_s = patience.pause_after(time.monotonic())
            if pause_s is None:
                raise patience.gave_up(error) from error
            if place.failures == 1:
                on_state(error)
            await asyncio.sleep(pause_s)

    async def _changes(
        self, followed: Followed, place: _Place, opened: Callable[[], None]
    ) -> AsyncIterator[StatusChange]:
        is_open = False
        async for event in self._events(followed, place):
            if not is_open:
                is_open = True
                opened()
            if (change := event.change()) is not None:
                yield change
            # Behind the change: whoever stops here hears of it again.
            place.event_id = event.id if event.id is not None else place.event_id

    async def _events(self, followed: Followed, place: _Place) -> AsyncIterator[ServerEvent]:
        behind = {} if place.event_id is None else {"last-event-id": str(place.event_id)}
        asked = self._http.stream(
            "GET", followed.path, params=followed.params, headers=behind, timeout=_STREAM_TIMEOUT
        )
        try:
            async with asked as response:
                if not response.is_success:
                    await response.aread()
                    raise _problem(response)
                async for event in read_events(response.aiter_raw()):
                    yield event
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    async def _outcome(self, handle: SagaHandle, timeout_ms: int) -> dict[str, Any]:
        template = "/v1/sagas/{saga_id}/outcome"
        return await self._send(
            Request("GET", f"/v1/sagas/{handle.saga_id}/outcome", template),
            params={"timeout_ms": timeout_ms},
            timeout=_REQUEST_S + timeout_ms / 1000,
        )

    async def _send(self, request: Request, **options: Any) -> dict[str, Any]:  # noqa: ANN401  # httpx's own
        """Send until it is answered or refused; what an outage ate is sent again, five times."""
        for resent, pause_s in enumerate((*_RETRY_S, None)):
            error = await self._attempt(request, resent, options)
            if isinstance(error, dict):
                return error
            if not error.retryable or pause_s is None:
                raise error
            await asyncio.sleep(pause_s)
        raise ApiUnreachable("api_unreachable", "the API did not answer")

    async def _attempt(
        self, request: Request, resent: int, options: Mapping[str, Any]
    ) -> dict[str, Any] | ApiRefused | ApiUnreachable:
        try:
            with request.call(str(self._http.base_url), resent) as call:
                sent = {**options, "headers": {**options.get("headers", {}), **call.headers}}
                response = await self._http.request(request.method, request.path, **sent)
                call.answered(response.status_code)
        except httpx.TransportError as error:
            return _unreachable(error)
        return _object(response) if response.is_success else _problem(response)


@dataclass(slots=True)
class _Place:
    """Up to which event a follower knows everything, and how often it has failed since."""

    event_id: int | None
    failures: int = 0


def _unreachable(error: httpx.TransportError) -> ApiUnreachable:
    return ApiUnreachable("api_unreachable", f"the API did not answer: {type(error).__name__}")


def _problem(response: httpx.Response) -> ApiRefused | ApiUnreachable:
    """Return what an answer that is none means."""
    if response.status_code >= 500:
        return ApiUnreachable("api_unreachable", f"the API answered {response.status_code}")
    body = _object(response)
    if response.status_code in _CROWDED and body.get("retryable") is True:
        return ApiUnreachable(
            str(body.get("code", "api_unreachable")),
            str(body.get("detail", "the API has no room now")),
        )
    code = str(body.get("code", "api_refused"))
    return ApiRefused(code, str(body.get("detail", f"status {response.status_code}")))


def _object(response: httpx.Response) -> dict[str, Any]:
    try:
        found = parse_strict(response.content)
    except MessageError:
        return {}
    return found if isinstance(found, dict) else {}
