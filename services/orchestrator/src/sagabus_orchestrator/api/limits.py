"""How many requests there may be, and what each may weigh: before anybody looks who sends it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sagabus_core.names import MAX_BODY_BYTES
from sagabus_orchestrator.api.errors import ApiBusy, BadRequest
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.problems import problem_of

__all__ = ["BodyLimit", "Crowd"]

_TOO_LARGE: Final = "a request body may have 256 KiB"


class Crowd:
    """Answers 503 beyond so many requests under way: what waits here already is not starved."""

    def __init__(self, app: ASGIApp, most: int, metrics: ApiMetrics) -> None:
        self._app = app
        self._most = most
        self._metrics = metrics
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if self._active >= self._most and scope["type"] == "http":
            error = ApiBusy("api_busy", "this replica has enough to do: ask again")
            response = await problem_of(Request(scope), error)
            await response(scope, receive, send)
            return
        self._active += 1
        self._metrics.active.inc()
        try:
            await self._app(scope, receive, send)
        finally:
            self._active -= 1
            self._metrics.active.dec()


class BodyLimit:
    """Refuses a larger body: at once where its length is told, else as soon as it is exceeded."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        told = request.headers.get("content-length", "0")
        if not told.isdigit() or int(told) > MAX_BODY_BYTES:
            await _refuse(request, receive, send)
            return
        if "transfer-encoding" not in request.headers:
            await self._app(scope, receive, send)
            return
        body = await _read(receive)
        if body is None:
            await _refuse(request, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)


async def _read(receive: Receive) -> bytes | None:
    """Return the whole body of unknown length, None once it is too large."""
    body = bytearray()
    more = True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            return bytes(body)
        body += message.get("body", b"")
        more = message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            return None
    return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    told = False

    async def again() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again


async def _refuse(request: Request, receive: Receive, send: Send) -> None:
    response = await problem_of(request, BadRequest("body_too_large", _TOO_LARGE))
    response.headers["connection"] = "close"
    await response(request.scope, receive, send)
