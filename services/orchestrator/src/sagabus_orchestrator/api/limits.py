"""How many requests there may be, what each may weigh, how long it may take to arrive."""

from __future__ import annotations

import asyncio
import re
from contextlib import ExitStack
from typing import Final

from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sagabus_core.errors import SagabusError
from sagabus_core.names import MAX_BODY_BYTES
from sagabus_orchestrator.api.errors import ApiBusy, BadRequest, RequestTimeout
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.problems import problem_of

__all__ = ["BODY_WITHIN_S", "BodyLimit", "Crowd", "HeadRules", "Holder"]

_TOO_LARGE: Final = "a request body may have 256 KiB"
BODY_WITHIN_S: Final = 30.0
"""Longest time that a body may take to arrive, from when somebody begins to read it."""
_LENGTH: Final = re.compile(r"[0-9]{1,15}")


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
            self._metrics.limited("requests")
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


class Holder:
    """Gives each request a stack of what it holds, let go once the answer was sent or cut off."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        with ExitStack() as held:
            scope.setdefault("state", {})["held"] = held
            await self._app(scope, receive, send)


class HeadRules:
    """Refuses a header that stands twice where two readers would understand two things.

    Those that say who asks are refused where they are read (`credentials_ambiguous`).
    """

    ONCE: Final = frozenset(
        {
            *(b"content-type", b"content-length", b"content-encoding", b"host"),
            *(b"idempotency-key", b"last-event-id", b"traceparent"),
        }
    )

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        seen: set[bytes] = set()
        for name, _ in scope.get("headers", ()):
            if name in seen and name in self.ONCE:
                error = BadRequest("invalid_header", f"the header {name.decode()} stands twice")
                await _refuse(Request(scope), error, receive, send)
                return
            seen.add(name)
        await self._app(scope, receive, send)


class BodyLimit:
    """Refuses a larger body: at once where its length is told, else as soon as it is exceeded.

    A body that arrives too slowly is given up: whoever sends it holds a request of this replica.
    """

    def __init__(self, app: ASGIApp, within_s: float) -> None:
        self._app = app
        self._within_s = within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        told = request.headers.get("content-length", "0")
        if not _LENGTH.fullmatch(told) or int(told) > MAX_BODY_BYTES:
            await _refuse(request, BadRequest("body_too_large", _TOO_LARGE), receive, send)
            return
        await self._app(scope, _bounded(receive, self._within_s), send)


def _bounded(receive: Receive, within_s: float) -> Receive:
    """Let a body be read by whoever wants it, which is after authentication."""
    taken, complete = 0, False
    ends_at: float | None = None

    async def bounded() -> Message:
        nonlocal taken, ends_at, complete
        if complete:
            return await receive()  # only a disconnect comes: that may take as long as it likes
        ends_at = ends_at or asyncio.get_running_loop().time() + within_s
        try:
            async with asyncio.timeout_at(ends_at):
                message = await receive()
        except TimeoutError as cause:
            raise RequestTimeout("request_timeout", "the body took too long to arrive") from cause
        taken += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if taken > MAX_BODY_BYTES:
            raise BadRequest("body_too_large", _TOO_LARGE)
        return message

    return bounded


async def _refuse(request: Request, error: SagabusError, receive: Receive, send: Send) -> None:
    response = await problem_of(request, error)
    response.headers["connection"] = "close"
    await response(request.scope, receive, send)
