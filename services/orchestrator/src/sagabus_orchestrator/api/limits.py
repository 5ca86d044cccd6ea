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
            self._metrics.answered("turned_away", response.status_code, 0.0)
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
        await self._app(scope, _counted(receive), send)


def _counted(receive: Receive) -> Receive:
    """Let a body of unknown length be read by whoever wants it, which is after authentication."""
    taken = 0

    async def counted() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY_BYTES:
            raise BadRequest("body_too_large", _TOO_LARGE)
        return message

    return counted


async def _refuse(request: Request, receive: Receive, send: Send) -> None:
    response = await problem_of(request, BadRequest("body_too_large", _TOO_LARGE))
    response.headers["connection"] = "close"
    await response(request.scope, receive, send)
