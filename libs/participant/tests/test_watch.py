"""What surrounds a handler: the span, the log fields, and the report of slow calls."""

import io
import json
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry
from pydantic import BaseModel

from sagabus_core import ids
from sagabus_core.vocabulary import Phase
from sagabus_messages import Command, Record, Stamp, Topics, encode, json_payload
from sagabus_participant import (
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Meters,
    Participant,
    StepOptions,
)
from sagabus_participant.admission import Call
from sagabus_participant.calls import Calls
from sagabus_participant.dispatch import Due
from sagabus_participant.journal import Activation, Found
from sagabus_participant.orders import read_input, read_order
from sagabus_participant.outcomes import Succeeded
from sagabus_participant.watch import Watch
from sagabus_runtime import logs
from sagabus_runtime.telemetry import Tracing

TRACE = "0af7651916cd43dd8448eb211c80319c"
NOW_MS = 1_800_000_000_000


class Book(BaseModel):
    account: str


class BookStep(LocalStep[Book]):
    def __init__(self) -> None:
        self.trace: str | None = None

    async def execute(self, ctx: LocalContext, order: Book) -> ExecutedLocally:
        logs.get_logger().info("books.booked", account=order.account)
        self.trace = ctx.traceparent
        return Succeeded()


def due(step: BookStep, flags: str, allowed_ms: int = 60_000) -> Due:
    participant, topics = Participant("books"), Topics("t.")
    participant.add("book", Book, step, StepOptions())
    saga = ids.saga_id("acme", "order", "ORD-1")
    effect = ids.effect_id(saga, 1, "book", Phase.EXECUTE, None)
    command = Command(
        saga_id=saga,
        tenant="acme",
        workflow="order",
        business_key="ORD-1",
        definition_version=1,
        definition_digest="0" * 64,
        step="book",
        activation="book",
        phase=Phase.EXECUTE,
        attempt=3,
        effect_id=effect,
        command_id=ids.command_id(effect, 3),
        expires_at_ms=NOW_MS + allowed_ms,
        payload=json_payload({"account": "A"}, "books.book.v1"),
    )
    stamp = Stamp("urn:sagabus:orchestrator", NOW_MS, f"00-{TRACE}-b7ad6b7169203331-{flags}")
    row = encode(command, topics.command("books"), stamp)
    record = Record(row.topic, 0, 1, row.key, row.value, row.headers, NOW_MS)
    order = read_order(record, participant, topics)
    given = read_input(order)
    assert isinstance(given, BaseModel)
    return Due(order, Call.EXECUTE, Activation(), given)


@pytest.fixture
def meters() -> Meters:
    return Meters(CollectorRegistry())


@pytest.fixture
def spans() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def tracing(spans: InMemorySpanExporter) -> Iterator[Tracing]:
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    opened = Tracing(provider)
    yield opened
    opened.close()


CONN: Any = SimpleNamespace(is_closed=lambda: False)


async def test_a_handler_runs_in_a_span_of_the_commands_trace(
    meters: Meters, tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    step = BookStep()
    found = await Calls(Watch(meters, tracing)).attempt(CONN, [due(step, "01")])
    assert found is not None
    assert [finding.kind for finding in found] == [Found.SUCCEEDED]
    (span,) = spans.get_finished_spans()
    assert span.context is not None
    assert f"{span.context.trace_id:032x}" == TRACE
    assert span.parent is not None
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert step.trace == f"00-{TRACE}-{span.context.span_id:016x}-01", "calls outside nest under it"
    assert span.attributes is not None
    assert (span.attributes["step"], span.attributes["attempt"]) == ("book", 3)


async def test_what_the_orchestrator_does_not_sample_opens_no_span(
    meters: Meters, tracing: Tracing, spans: InMemorySpanExporter
) -> None:
    step = BookStep()
    await Calls(Watch(meters, tracing)).attempt(CONN, [due(step, "00")])
    assert spans.get_finished_spans() == ()
    assert step.trace == f"00-{TRACE}-b7ad6b7169203331-00"


async def test_every_log_line_of_a_handler_names_saga_step_attempt_and_trace(
    meters: Meters,
) -> None:
    out = io.StringIO()
    try:
        logs.configure("books", "info", "json", out)
        given = due(BookStep(), "00")
        await Calls(Watch(meters)).attempt(CONN, [given])
        logs.get_logger().info("books.idle")
    finally:
        structlog.reset_defaults()
        structlog.contextvars.clear_contextvars()
    inside, outside = (json.loads(line) for line in out.getvalue().splitlines())
    assert inside["saga_id"] == given.order.command.saga_id
    assert (inside["step"], inside["attempt"], inside["trace_id"]) == ("book", 3, TRACE)
    assert "saga_id" not in outside


async def test_a_call_that_outlasts_its_step_is_reported(meters: Meters) -> None:
    with structlog.testing.capture_logs() as told:
        await Calls(Watch(meters)).attempt(CONN, [due(BookStep(), "00", allowed_ms=0)])
        await Calls(Watch(meters)).attempt(CONN, [due(BookStep(), "00")])
    (slow,) = [line for line in told if line["event"] == "participant.handler_slow"]
    assert (slow["log_level"], slow["call"], slow["allowed_ms"]) == ("warning", "EXECUTE", 0)
    assert meters.slow.labels("book", "EXECUTE")._value.get() == 1
