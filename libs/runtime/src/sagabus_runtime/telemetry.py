"""Tracing: an OpenTelemetry provider per service and W3C trace context as plain values.

A saga is one trace: each message carries a `traceparent` from record to record, and whoever acts on
it begins a span below that place. A span costs about 50 microseconds, a trace that is not sampled
a look at one character. Configured by the standard OTEL_* variables; off without an exporter.
Format: W3C Trace Context, https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    Span,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
)
from opentelemetry.util.types import Attributes

from sagabus_runtime.exporter import exporter, is_wanted
from sagabus_runtime.names import FIELD_ERROR_TYPE, FIELD_SAGA_ID, FIELD_TRACE_ID

__all__ = [
    "NO_PARENT",
    "Begun",
    "TraceParent",
    "Tracing",
    "current_traceparent",
    "format_traceparent",
    "is_sampled",
    "log_fields",
    "new_traceparent",
    "parse_traceparent",
    "running",
    "traceparent_here",
]

_TRACEPARENT = re.compile(r"(?P<version>[0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_ODD: Final = frozenset("13579bdf")
NO_PARENT: Final = trace.set_span_in_context(trace.INVALID_SPAN, Context())


@dataclass(frozen=True, slots=True)
class TraceParent:
    """Where a message belongs in a trace; ids are lower-case hexadecimal, never all zeros."""

    trace_id: str
    span_id: str
    sampled: bool

    def context(self) -> SpanContext:
        """Return the same place as OpenTelemetry sees it."""
        return SpanContext(
            trace_id=int(self.trace_id, 16),
            span_id=int(self.span_id, 16),
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED if self.sampled else TraceFlags.DEFAULT),
        )


def parse_traceparent(header: bytes | str | None) -> TraceParent | None:
    """Return the trace context of a header, or None for one that is absent or malformed.

    A bad trace context never makes a message bad. Versions above 00 may carry more after the
    flags, which is ignored; version ff and ids of zeros are invalid.
    """
    if header is None:
        return None
    text = header.decode("ascii", "replace") if isinstance(header, bytes) else header
    found = _TRACEPARENT.match(text)
    if found is None or found["version"] == "ff":
        return None
    rest = text[found.end() :]
    if rest and (found["version"] == "00" or not rest.startswith("-")):
        return None
    trace_id, span_id, flags = found[2], found[3], int(found[4], 16)
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceParent(trace_id, span_id, bool(flags & TraceFlags.SAMPLED))


def format_traceparent(parent: TraceParent) -> str:
    """Return the header text (version 00) of a trace context."""
    return f"00-{parent.trace_id}-{parent.span_id}-{int(parent.sampled):02x}"


def new_traceparent(*, sampled: bool = False) -> TraceParent:
    """Return the beginning of a new trace."""
    # An id of zeros is invalid, hence the one in a place that randomness cannot clear.
    trace_id, span_id = random.getrandbits(128) | 1, random.getrandbits(64) | 1
    return TraceParent(f"{trace_id:032x}", f"{span_id:016x}", sampled)


def is_sampled(traceparent: str | None) -> bool:
    """Say whether spans of this trace are wanted: the last bit of the flags, as cheap as can be."""
    return traceparent is not None and traceparent[-1:] in _ODD


def log_fields(saga_id: str, traceparent: str | None) -> dict[str, str]:
    """Return what every log line about a saga carries."""
    fields = {FIELD_SAGA_ID: saga_id}
    parent = parse_traceparent(traceparent)
    if parent is not None:
        fields[FIELD_TRACE_ID] = parent.trace_id
    return fields


def current_traceparent() -> TraceParent | None:
    """Return the trace context of the running span, or None outside of one."""
    return _place(trace.get_current_span())


def traceparent_here() -> str | None:
    """Return the `traceparent` of the running span, or None outside of one."""
    here = current_traceparent()
    return format_traceparent(here) if here is not None else None


@contextmanager
def running(span: Span | None) -> Iterator[Span]:
    """Run the block in a span and end it; None: in none.

    Of an error it tells the type alone: what an error says quotes payloads, keys and addresses.
    """
    here = span or trace.INVALID_SPAN
    with trace.use_span(
        here, end_on_exit=True, record_exception=False, set_status_on_exception=False
    ):
        try:
            yield here
        except Exception as error:
            here.set_attribute(FIELD_ERROR_TYPE, type(error).__name__)
            here.set_status(StatusCode.ERROR)
            raise


Begun: TypeAlias = tuple[str, Span | None]
"""The `traceparent` of what follows, and the span to end once that is durable, if there is one."""


class Tracing:
    """The tracer of one service. Where it is off, traces pass through as they came."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self._provider = provider
        self.tracer: Tracer | None = provider.get_tracer("sagabus") if provider else None

    @property
    def enabled(self) -> bool:
        """Whether spans are made and exported."""
        return self.tracer is not None

    @classmethod
    def start(cls, service: str, environment: Mapping[str, str] | None = None) -> Tracing:
        """Return tracing as the OTEL_* variables say; off unless they name an OTLP endpoint.

        https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/
        Raises `SettingsError` for an exporter that is unknown or not installed.
        """
        variables = os.environ if environment is None else environment
        if not is_wanted(variables):
            return cls()
        provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: variables.get("OTEL_SERVICE_NAME", service)}),
            shutdown_on_exit=False,
        )
        provider.add_span_processor(BatchSpanProcessor(exporter(variables)))
        return cls(provider)

    @classmethod
    def of_host(cls) -> Tracing:
        """Return tracing through the provider that the process has set, off where it set none.

        For code that lives in somebody else's service: never close it.
        """
        provider = trace.get_tracer_provider()
        return cls(provider if isinstance(provider, TracerProvider) else None)

    def become_host(self) -> None:
        """Let libraries of this process trace as this does: for programs that are no service."""
        if self._provider is not None:
            trace.set_tracer_provider(self._provider)

    def begin(
        self,
        name: str,
        traceparent: str | None,
        attributes: Attributes = None,
        kind: SpanKind = SpanKind.INTERNAL,
    ) -> Begun:
        """Begin a span below `traceparent`, or a trace where there is none.

        The span links what runs at the moment: a batch, an operator's request. It is told only once
        it has ended, so end it after the commit and forget it after a rollback. Where the trace is
        not sampled, or tracing is off, there is no span and the trace goes on as it came.
        """
        if self.tracer is None or (traceparent is not None and not is_sampled(traceparent)):
            return traceparent or format_traceparent(new_traceparent()), None
        parent = parse_traceparent(traceparent)
        span = self.tracer.start_span(
            name,
            context=_below(parent),
            kind=kind,
            attributes=attributes,
            links=_surroundings(parent),
        )
        place = _place(span)
        here = format_traceparent(place) if place else (traceparent or "")
        return here, span if span.is_recording() else None

    def begin_here(
        self, name: str, attributes: Attributes = None, kind: SpanKind = SpanKind.INTERNAL
    ) -> tuple[str | None, Span | None]:
        """Begin a span below the running one; where tracing is off, return that one's place."""
        parent = traceparent_here()
        return self.begin(name, parent, attributes, kind) if self.enabled else (parent, None)

    @contextmanager
    def batch_span(self, name: str, traceparents: Iterable[str | None]) -> Iterator[Span]:
        """Run the block in one span below the first sampled of these that links all others.

        Below one of them, since a trace of its own would be sampled or not by another dice. Without
        a sampled one there is no span and no cost.
        """
        sampled = dict.fromkeys(text for text in traceparents if is_sampled(text))
        if self.tracer is None or not sampled:
            yield trace.INVALID_SPAN
            return
        parents = [parsed for text in sampled if (parsed := parse_traceparent(text))]
        links = [Link(parent.context()) for parent in parents[1:]]
        context = _below(parents[0] if parents else None)
        with running(self.tracer.start_span(name, context=context, links=links)) as span:
            yield span

    def close(self) -> None:
        """Export what is pending and stop; blocks while it does."""
        if self._provider is not None:
            self._provider.shutdown()

    async def aclose(self) -> None:
        """Do what `close` does, in a thread."""
        if self._provider is not None:
            await asyncio.to_thread(self._provider.shutdown)


def _place(span: Span) -> TraceParent | None:
    context = span.get_span_context()
    if not context.is_valid:
        return None
    return TraceParent(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled
    )


def _below(parent: TraceParent | None) -> Context:
    if parent is None:
        return NO_PARENT
    return trace.set_span_in_context(trace.NonRecordingSpan(parent.context()), Context())


def _surroundings(parent: TraceParent | None) -> list[Link]:
    current = trace.get_current_span().get_span_context()
    known = parent is not None and current.trace_id == int(parent.trace_id, 16)
    return [Link(current)] if current.is_valid and not known else []
