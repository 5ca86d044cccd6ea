"""What a request may weigh, counted while it comes in: before anybody looks who sends it."""

from __future__ import annotations

from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sagabus_core.names import MAX_BODY_BYTES
from sagabus_orchestrator.api.errors import BadRequest
from sagabus_orchestrator.api.problems import problem_of

__all__ = ["BodyLimit"]

_TOO_LARGE: Final = "a request body may have 256 KiB"


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
