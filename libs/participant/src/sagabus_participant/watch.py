"""What surrounds a handler: its context, its span, its log fields, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from types import TracebackType
from typing import Any

from opentelemetry.trace import SpanKind

from sagabus_participant.dispatch import Due, context_fields
from sagabus_participant.telemetry import (
    ATTRIBUTE_ATTEMPT,
    ATTRIBUTE_CALL,
    ATTRIBUTE_COMMANDS,
    ATTRIBUTE_OUTBOX_MS,
    ATTRIBUTE_STEP,
    ATTRIBUTE_WAITED_MS,
    EVENT_HANDLER_SLOW,
    SPAN_HANDLER,
    Meters,
)
from sagabus_runtime.logs import bind, get_logger, unbind
from sagabus_runtime.names import FIELD_SAGA_ID, FIELD_TRACE_ID
from sagabus_runtime.telemetry import (
    TraceParent,
    Tracing,
    parse_traceparent,
    running,
)

__all__ = ["Watch"]


class Watch:
    """Surrounds each call of a handler; without `tracing` no span is opened."""

    def __init__(self, meters: Meters, tracing: Tracing | None = None) -> None:
        self._meters = meters
        self._tracing = tracing or Tracing()

    def call(self, due: Due) -> _Call:
        """Return a block that is one call of the handler; it gives the fields of its `Context`.

        Log lines of the block name saga, step, attempt and trace. A span is opened where the
        command's trace is sampled, or the command has none and this service samples its own.
        A call that takes longer than its step allows is reported.
        """
        return _Call(self, due)

    @contextmanager
    def calls(self, dues: Sequence[Due]) -> Iterator[list[dict[str, Any]]]:
        """Surround one call for several commands of a step: log lines name it and their number.

        One span joins the sampled traces among theirs; each `Context` continues its own trace.
        """
        received = [due.order.meta.traceparent for due in dues]
        token = bind({ATTRIBUTE_STEP: dues[0].order.step.name, ATTRIBUTE_COMMANDS: len(dues)})
        began = time.monotonic()
        try:
            with self._tracing.batch_span(SPAN_HANDLER, received):
                yield [context_fields(due, text) for due, text in zip(dues, received, strict=True)]
        finally:
            self.report(dues[0], (time.monotonic() - began) * 1000)
            unbind(token)

    def span(self, due: Due, parent: TraceParent | None) -> AbstractContextManager[str | None]:
        """Return the span of a call, one that is already closed where nothing is to be traced."""
        if not self._tracing.enabled or (parent is not None and not parent.sampled):
            return nullcontext(due.order.meta.traceparent)
        return _span(self._tracing, due)

    def report(self, due: Due, took_ms: float) -> None:
        """Measure a call; tell about one that took as long as its step allows, or longer."""
        order = due.order
        self._meters.call_seconds.observe((order.step.name, due.call.value), took_ms / 1000)
        allowed_ms = min(
            order.step.options.timeout_ms, order.ask.expires_at_ms - order.meta.ce_time_ms
        )
        if took_ms < allowed_ms:
            return
        self._meters.slow.labels(order.step.name, due.call.value).inc()
        get_logger().warning(
            EVENT_HANDLER_SLOW, call=due.call.value, took_ms=round(took_ms), allowed_ms=allowed_ms
        )


class _Call:
    """A context manager by hand: three nested generators cost more than many a handler."""

    __slots__ = ("_began", "_bound", "_due", "_span", "_watch")

    def __init__(self, watch: Watch, due: Due) -> None:
        self._watch = watch
        self._due = due

    def __enter__(self) -> dict[str, Any]:
        command, received = self._due.order.command, self._due.order.meta.traceparent
        fields: dict[str, object] = {
            FIELD_SAGA_ID: command.saga_id,
            ATTRIBUTE_STEP: command.step,
            ATTRIBUTE_ATTEMPT: command.attempt,
        }
        parent = parse_traceparent(received) if received is not None else None
        if parent is not None:
            fields[FIELD_TRACE_ID] = parent.trace_id
        self._bound = bind(fields)
        self._span = self._watch.span(self._due, parent)
        self._began = time.monotonic()
        return context_fields(self._due, self._span.__enter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace_back: TracebackType | None,
    ) -> None:
        self._watch.report(self._due, (time.monotonic() - self._began) * 1000)
        self._span.__exit__(kind, error, trace_back)
        unbind(self._bound)


@contextmanager
def _span(tracing: Tracing, due: Due) -> Iterator[str | None]:
    order = due.order
    command, sent_ms = order.command, order.record.timestamp_ms
    attributes: dict[str, str | int] = {
        FIELD_SAGA_ID: command.saga_id,
        ATTRIBUTE_STEP: command.step,
        ATTRIBUTE_ATTEMPT: command.attempt,
        ATTRIBUTE_CALL: due.call.value,
        ATTRIBUTE_OUTBOX_MS: sent_ms - order.meta.ce_time_ms,
        ATTRIBUTE_WAITED_MS: int(time.time() * 1000) - sent_ms,
    }
    here, span = tracing.begin(SPAN_HANDLER, order.meta.traceparent, attributes, SpanKind.CONSUMER)
    with running(span):
        yield here
