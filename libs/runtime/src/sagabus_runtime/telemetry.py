"""Tracing: an OpenTelemetry provider per service and W3C trace context as plain values.

A span costs about 12 microseconds, so hot paths open one span per batch and link the traces of
the messages to it; a message carries its `traceparent` from record to record.
Format: W3C Trace Context, https://www.w3.org/TR/trace-context/#traceparent-header
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Link, Span, SpanContext, TraceFlags, Tracer

from sagabus_runtime.errors import SettingsError

__all__ = [
    "TraceParent",
    "Tracing",
    "current_traceparent",
    "format_traceparent",
    "new_traceparent",
    "parse_traceparent",
]

_TRACEPARENT = re.compile(r"(?P<version>[0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


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
    return TraceParent(f"{secrets.token_hex(15)}01", f"{secrets.token_hex(7)}01", sampled)


def current_traceparent() -> TraceParent | None:
    """Return the trace context of the running span, or None outside of one."""
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return None
    return TraceParent(
        f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags.sampled
    )


class Tracing:
    """The tracer of one service; spans leave the process only if an endpoint is configured."""

    def __init__(self, provider: TracerProvider, *, samples_roots: bool = True) -> None:
        self._provider = provider
        self._samples_roots = samples_roots
        self.tracer: Tracer = provider.get_tracer("sagabus")

    @classmethod
    def start(cls, service: str, ratio: float, otlp_endpoint: str | None = None) -> Tracing:
        """Return tracing that follows a parent's sampling decision and samples `ratio` of roots.

        Raises `SettingsError` if an endpoint is given and the exporter is not installed.
        """
        provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(ratio)),
            resource=Resource.create({SERVICE_NAME: service}),
            shutdown_on_exit=False,
        )
        if otlp_endpoint is not None:
            provider.add_span_processor(BatchSpanProcessor(_exporter(otlp_endpoint)))
        return cls(provider, samples_roots=ratio > 0)

    @classmethod
    def of_host(cls) -> Tracing | None:
        """Return tracing through the provider that the process has set, None where it set none.

        For code that lives in somebody else's service: never close it.
        """
        provider = trace.get_tracer_provider()
        return cls(provider) if isinstance(provider, TracerProvider) else None

    def may_record(self, parent: TraceParent | None) -> bool:
        """Say whether a span below `parent` can be recorded: one that cannot is not worth 12 us."""
        return self._samples_roots if parent is None else parent.sampled

    @contextmanager
    def batch_span(self, name: str, parents: Iterable[TraceParent | None]) -> Iterator[Span]:
        """Run the block in one span that links the sampled traces among `parents`."""
        links = [Link(parent.context()) for parent in parents if parent and parent.sampled]
        with self.tracer.start_as_current_span(name, links=links) as span:
            yield span

    def close(self) -> None:
        """Export what is pending and stop."""
        self._provider.shutdown()


def _exporter(endpoint: str) -> SpanExporter:
    try:
        module = import_module(_EXPORTER)
    except ImportError as cause:
        raise SettingsError(
            "exporter_missing",
            "SAGABUS_OTLP_ENDPOINT is set but the exporter is not installed:"
            " pip install opentelemetry-exporter-otlp-proto-http",
        ) from cause
    exporter: SpanExporter = module.OTLPSpanExporter(endpoint=endpoint)
    return exporter
