"""Around every request: one span, one log line, and the names that both carry.

A span says method, route, status and saga; never path, query, header or body, which hold keys,
cursors and payloads. https://opentelemetry.io/docs/specs/semconv/http/http-spans/
"""

from __future__ import annotations

import re
import time
import uuid
from contextlib import nullcontext
from typing import Final

from opentelemetry.trace import Span, SpanKind, StatusCode
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sagabus_orchestrator.api.trace import caller_place, trace_id_of
from sagabus_runtime import Tracing, get_logger, parse_traceparent
from sagabus_runtime.logs import bind, unbind
from sagabus_runtime.names import (
    FIELD_ERROR_TYPE,
    FIELD_HTTP_METHOD,
    FIELD_HTTP_ROUTE,
    FIELD_HTTP_STATUS,
    FIELD_REQUEST_ID,
    FIELD_TRACE_ID,
)
from sagabus_runtime.telemetry import running

__all__ = ["REQUEST_ID", "Traced"]

REQUEST_ID: Final = b"x-request-id"
_ID: Final = re.compile(rb"[A-Za-z0-9_.:-]{1,64}")
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_REFUSED: Final = 400
_FAILED: Final = 500


class Traced:
    """Begins a span below the caller's place, and binds request id and trace id to all log lines.

    `X-Request-Id` of the caller is kept if it is short and plain, else there is a new one; the
    answer carries it. What changes something, or was refused, is logged as `api.answered` once the
    answer is out; reading only at level debug.
    """

    def __init__(self, app: ASGIApp, tracing: Tracing) -> None:
        self._app = app
        self._tracing = tracing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        method = scope["method"] if scope["method"] in _METHODS else "_OTHER"
        here, span = self._tracing.begin(
            method, caller_place(request), {FIELD_HTTP_METHOD: method}, SpanKind.SERVER
        )
        request.state.trace, request.state.span = parse_traceparent(here), span
        answer = _Answer(scope, method, _request_id(request))
        token = bind({FIELD_TRACE_ID: trace_id_of(request), FIELD_REQUEST_ID: answer.id.decode()})
        try:
            with running(span) if span is not None else nullcontext():
                try:
                    await self._app(scope, receive, answer.sender(send))
                finally:
                    answer.tell(span)
        finally:
            unbind(token)


class _Answer:
    """What becomes of one request."""

    def __init__(self, scope: Scope, method: str, request_id: bytes) -> None:
        self.id = request_id
        self._scope = scope
        self._method = method
        self._status = 0
        self._began_s = time.perf_counter()

    def sender(self, send: Send) -> Send:
        """Return `send` as the app sees it."""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._status = message["status"]
                message["headers"] = [*message.get("headers", ()), (REQUEST_ID, self.id)]
            await send(message)

        return noting

    def tell(self, span: Span | None) -> None:
        """Tell span and log; the route is known only now."""
        route = getattr(self._scope.get("route"), "path", "")
        if span is not None:
            self._describe(span, route)
        log = get_logger()
        is_quiet = self._method in _READS and self._status < _REFUSED
        fields = {"route": route, "status": self._status, "code": self._scope["state"].get("code")}
        (log.debug if is_quiet else log.info)(
            "api.answered",
            method=self._method,
            took_ms=round((time.perf_counter() - self._began_s) * 1000, 1),
            **{name: value for name, value in fields.items() if value},  # no status: caller gone
        )

    def _describe(self, span: Span, route: str) -> None:
        if route:
            span.update_name(f"{self._method} {route}")
            span.set_attribute(FIELD_HTTP_ROUTE, route)
        if self._status:
            span.set_attribute(FIELD_HTTP_STATUS, self._status)
        if self._status >= _FAILED:  # a refusal is the caller's error, not this span's
            span.set_attribute(FIELD_ERROR_TYPE, str(self._status))
            span.set_status(StatusCode.ERROR)


def _request_id(request: Request) -> bytes:
    found = request.headers.get(REQUEST_ID.decode(), "").encode("latin-1")
    return found if _ID.fullmatch(found) else uuid.uuid4().hex.encode()
