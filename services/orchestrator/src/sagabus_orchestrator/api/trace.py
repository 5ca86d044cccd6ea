"""The trace of a request: the caller's, or a new one."""

from __future__ import annotations

from starlette.requests import HTTPConnection

from sagabus_runtime import TraceParent, format_traceparent, parse_traceparent
from sagabus_runtime.telemetry import new_traceparent

__all__ = ["trace_id_of", "traceparent_of"]


def _trace_of(request: HTTPConnection) -> TraceParent:
    found: TraceParent | None = getattr(request.state, "trace", None)
    if found is None:
        header = request.headers.get("traceparent")
        found = parse_traceparent(header) or new_traceparent()
        request.state.trace = found
    return found


def trace_id_of(request: HTTPConnection) -> str:
    """Return the id that names this request in logs, traces and problems."""
    return _trace_of(request).trace_id


def traceparent_of(request: HTTPConnection) -> str:
    """Return what the messages caused by this request carry."""
    return format_traceparent(_trace_of(request))
