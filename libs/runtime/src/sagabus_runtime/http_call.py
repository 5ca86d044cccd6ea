"""The caller's side of an HTTP request in a trace: a span per attempt, and the header to send.

A span tells method, template of the path, server and status, never path, query, header or body:
those hold keys, cursors and payloads.
https://opentelemetry.io/docs/specs/semconv/http/http-spans/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from opentelemetry.trace import INVALID_SPAN, Span, SpanKind, StatusCode

from sagabus_runtime.names import (
    FIELD_ERROR_TYPE,
    FIELD_HTTP_METHOD,
    FIELD_HTTP_RESENT,
    FIELD_HTTP_STATUS,
    FIELD_SERVER_ADDRESS,
    FIELD_SERVER_PORT,
    FIELD_URL_TEMPLATE,
)
from sagabus_runtime.telemetry import Tracing, running

__all__ = ["HttpCall", "http_call"]

_REFUSED: Final = 400
_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class HttpCall:
    """One attempt; `headers` go with the request."""

    headers: Mapping[str, str]
    span: Span = INVALID_SPAN

    def answered(self, status: int) -> None:
        """Tell which status came back."""
        self.span.set_attribute(FIELD_HTTP_STATUS, status)
        if status >= _REFUSED:
            self.span.set_attribute(FIELD_ERROR_TYPE, str(status))
            self.span.set_status(StatusCode.ERROR)


@contextmanager
def http_call(
    method: str, base_url: str, template: str = "", *, parent: str | None = None, resent: int = 0
) -> Iterator[HttpCall]:
    """Surround one attempt at a request, below `parent` or else below the running span.

    Where this process does not trace, the place above goes out as it is. `template` is the path
    with names in place of what varies, `resent` how many attempts there were before.
    """
    tracing = Tracing.of_host()
    attributes = _attributes(method, base_url, template, resent) if tracing.enabled else None
    name = f"{method} {template}".rstrip()
    if parent is None:
        here, span = tracing.begin_here(name, attributes, SpanKind.CLIENT)
    elif tracing.enabled:
        here, span = tracing.begin(name, parent, attributes, SpanKind.CLIENT)
    else:
        here, span = parent, None
    headers = {"traceparent": here} if here is not None else {}
    if span is None:
        yield HttpCall(headers)
        return
    with running(span):
        yield HttpCall(headers, span)


def _attributes(method: str, base_url: str, template: str, resent: int) -> dict[str, str | int]:
    server = urlsplit(base_url)
    port = server.port or _PORTS.get(server.scheme)
    found: dict[str, str | int] = {
        FIELD_HTTP_METHOD: method,
        FIELD_SERVER_ADDRESS: server.hostname or "",
    }
    if port is not None:
        found[FIELD_SERVER_PORT] = port
    if template:
        found[FIELD_URL_TEMPLATE] = template
    if resent:
        found[FIELD_HTTP_RESENT] = resent
    return found
