"""HTTP/1.1 with an end to everything that a peer can drag out: the edge before the app.

The parser itself takes heads of any size, waits for ever, and lets trailers pass for headers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar, Final

from starlette.requests import Request
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from sagabus_core.names import MAX_BODY_BYTES
from sagabus_orchestrator.api.errors import BadRequest, RequestTimeout
from sagabus_orchestrator.api.metrics import ApiMetrics
from sagabus_orchestrator.api.problems import problem_of_ours

__all__ = ["DEFAULT_LIMITS", "WireLimits", "bounded_protocol"]

_FRAMED_BYTES: Final = 16 * MAX_BODY_BYTES
"""Most that a body may take with the frames of its chunks: a byte in a chunk takes six."""
_SLACK_S: Final = 5.0
_MALFORMED: Final = BadRequest("invalid_request", "this is no HTTP/1.1 request: see openapi.json")


@dataclass(frozen=True, slots=True)
class WireLimits:
    """How large a request line with its headers may be, and how long a peer may take for what.

    `send_s`: how long a reader may let an answer wait that no longer fits into the buffers.
    """

    head_bytes: int = 32 * 1024
    headers: int = 100
    head_s: float = 10.0
    body_s: float = 30.0
    send_s: float = 30.0


DEFAULT_LIMITS: Final = WireLimits()


class _Bounded(HttpToolsProtocol):
    """One connection."""

    limits: ClassVar[WireLimits]
    metrics: ClassVar[ApiMetrics]
    _deadline: asyncio.TimerHandle | None = None
    _stalled: asyncio.TimerHandle | None = None
    _in_head: bool = True
    _has_begun: bool = False
    _taken: int = 0
    _taken_at_begin: int = 0
    _trouble: BadRequest | RequestTimeout = _MALFORMED

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn's own
        super().connection_made(transport)
        self._expect(self.limits.head_s)

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect(None)
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None and self._is_idle():
            self._expect(self.limits.head_s)  # empty lines begin no message, and end no wait
        self._taken += len(data)
        self._taken_at_begin = 0 if self._has_begun else len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._taken > self.limits.head_bytes:
            self._refuse(self._head_too_large())
        elif not self._in_head and self._taken > _FRAMED_BYTES:
            self.transport.abort()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._has_begun, self._taken = True, True, self._taken_at_begin
        self._taken_at_begin = 0  # whatever begins behind it in the same piece is smaller
        if self._deadline is None:
            self._expect(self.limits.head_s)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_head:
            return  # a trailer: what came behind the body was never checked as a header
        super().on_header(name, value)
        if len(self.headers) > self.limits.headers:
            self._trouble = self._head_too_large()
            raise self._trouble

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.limits.head_bytes:
            self._trouble = self._head_too_large()
            raise self._trouble
        self._in_head, self._taken = False, 0
        # The app ends a slow body itself, with an answer; this is for whoever it answered before.
        self._expect(self.limits.body_s + _SLACK_S)
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._expect(None)
        self._has_begun, self._taken = False, 0
        super().on_message_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.send_s, self.transport.abort)

    def resume_writing(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        """Answer what cannot be parsed, or what a limit ended."""
        del msg
        self._refuse(self._trouble)

    def _refuse(self, error: BadRequest | RequestTimeout) -> None:
        self._expect(None)
        if not self._is_idle():
            # Not between the bytes of another answer, where it would pass for that one.
            self.transport.close()
            return
        answer = problem_of_ours(Request({"type": "http", "headers": []}), error)
        status = HTTPStatus(answer.status_code)
        answer.headers["connection"] = "close"
        head = [f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode()]
        head += [b"%s: %s\r\n" % pair for pair in answer.raw_headers]
        self.transport.write(b"".join([*head, b"\r\n", bytes(answer.body)]))
        self.transport.close()

    def _late(self) -> None:
        self._deadline = None
        if self._in_head and self._has_begun and self._is_idle():
            self.metrics.limited("head_time")
            self._refuse(RequestTimeout("request_timeout", "the headers took too long to arrive"))
        else:
            self.transport.abort()

    def _expect(self, within_s: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if within_s is None else self.loop.call_later(within_s, self._late)

    def _is_idle(self) -> bool:
        cycle: RequestResponseCycle | None = self.cycle
        return cycle is None or cycle.response_complete

    def _head_too_large(self) -> BadRequest:
        self.metrics.limited("head")
        kib, most = self.limits.head_bytes // 1024, self.limits.headers
        return BadRequest(
            "head_too_large", f"request line and headers may have {kib} KiB, in {most} fields"
        )


def bounded_protocol(limits: WireLimits, metrics: ApiMetrics) -> type[HttpToolsProtocol]:
    """Return the protocol class of a server."""
    return type("Bounded", (_Bounded,), {"limits": limits, "metrics": metrics})
