"""What names a request: its trace, and who asks about which saga, for logs, spans and problems."""

from __future__ import annotations

from opentelemetry.trace import INVALID_SPAN, Span
from starlette.requests import HTTPConnection

from sagabus_runtime import TraceParent, format_traceparent, parse_traceparent
from sagabus_runtime.logs import bind
from sagabus_runtime.names import FIELD_ACTOR, FIELD_SAGA_ID
from sagabus_runtime.telemetry import new_traceparent, traceparent_here

__all__ = ["caller_place", "note_actor", "note_saga", "trace_id_of", "traceparent_of"]


def caller_place(request: HTTPConnection) -> str | None:
    """Return below what a request stands: what runs here already, else what its caller says.

    Something runs where the process that hosts the app traces requests by itself.
    """
    found = parse_traceparent(traceparent_here() or request.headers.get("traceparent"))
    return format_traceparent(found) if found is not None else None


def trace_id_of(request: HTTPConnection) -> str:
    """Return the id that names this request in logs, traces and problems."""
    return _place_of(request).trace_id


def traceparent_of(request: HTTPConnection) -> str:
    """Return what the messages caused by this request carry."""
    return format_traceparent(_place_of(request))


def note_actor(request: HTTPConnection, actor: str) -> None:
    """Let the log lines of a request say who asks. Spans go further than logs: they do not."""
    if _is_watched(request):
        bind({FIELD_ACTOR: actor})


def note_saga(request: HTTPConnection, saga_id: str) -> None:
    """Let the log lines and the span of a request say which saga it is about."""
    if _is_watched(request):
        bind({FIELD_SAGA_ID: saga_id})
        span: Span = getattr(request.state, "span", None) or INVALID_SPAN
        span.set_attribute(FIELD_SAGA_ID, saga_id)


def _is_watched(request: HTTPConnection) -> bool:
    """Say whether `Traced` surrounds this request, and takes back what is bound."""
    return hasattr(request.state, "span")


def _place_of(request: HTTPConnection) -> TraceParent:
    found: TraceParent | None = getattr(request.state, "trace", None)
    if found is None:  # `Traced` does not surround what is refused before it
        found = parse_traceparent(caller_place(request)) or new_traceparent()
        request.state.trace = found
    return found
