"""A saga is one trace, whatever moves it; nothing is told of what was rolled back."""

from dataclasses import replace

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from sagabus_core.engine import Retry
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Record, unpack_headers
from sagabus_orchestrator.entry import SPAN_BATCH, SPAN_TRANSITION
from sagabus_runtime import Tracing

from .support import Rig, commands, operation

CLIENT = f"00-{'ab' * 16}-{'cd' * 8}-01"
OTHER = f"00-{'12' * 16}-{'34' * 8}-01"


class Traces:
    """What the rig's orchestrator tells a collector."""

    def __init__(self, rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        rig.handler._events.tracing = rig.operations._tracing = Tracing(self.provider)
        monkeypatch.setattr("opentelemetry.trace._TRACER_PROVIDER", self.provider)

    def told(self, name: str = SPAN_TRANSITION) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traces(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> Traces:
    return Traces(rig, monkeypatch)


def traced(record: Record, traceparent: str) -> Record:
    return replace(record, headers=(*record.headers, ("traceparent", traceparent.encode())))


def ids(span: ReadableSpan) -> tuple[str, str]:
    assert span.context is not None
    return f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}"


def parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"{span.parent.span_id:016x}"


async def written(rig: Rig) -> list[str]:
    """Return the traceparent of every record that was written, in order."""
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select headers from outbox order by id")
    headers = [dict(unpack_headers(row["headers"])) for row in rows]
    return [header["traceparent"].decode() for header in headers]


async def test_messages_the_sweep_and_operations_go_on_in_the_trace_of_the_start(
    rig: Rig, traces: Traces
) -> None:
    (command,) = commands(await rig.process(traced(rig.start_record(), CLIENT)))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    with traces.provider.get_tracer("desk").start_as_current_span("request") as request:
        await rig.operations.perform("acme", rig.saga("ORD-1"), Retry(operation("again")))
    armed_at_ms = await rig.value("select armed_at_ms from saga")
    assert isinstance(armed_at_ms, int)
    await rig.until(armed_at_ms)
    assert await rig.sweeper.sweep() == 1

    spans = traces.told()
    assert [(span.attributes or {})["trigger"] for span in spans] == [
        *("start", "result", "operation", "sweep"),
    ]
    assert {ids(span)[0] for span in spans} == {"ab" * 16}
    assert [parent(span) for span in spans] == ["cd" * 8, *(ids(s)[1] for s in spans[:-1])]
    assert [link.context for link in spans[2].links] == [request.get_span_context()]
    places = [text.split("-")[2] for text in await written(rig)]
    assert set(places) <= {ids(span)[1] for span in spans}


async def test_a_batch_of_several_sagas_links_their_traces(rig: Rig, traces: Traces) -> None:
    await rig.process(
        traced(rig.start_record("ORD-1"), CLIENT),
        rig.start_record("ORD-2"),
        traced(rig.start_record("ORD-3"), OTHER),
    )
    (batch,) = traces.told(SPAN_BATCH)
    assert (ids(batch)[0], parent(batch)) == ("ab" * 16, "cd" * 8)
    assert [f"{link.context.trace_id:032x}" for link in batch.links] == ["12" * 16]
    linked = {parent(s): [link.context for link in s.links] for s in traces.told() if s.parent}
    assert linked == {"cd" * 8: [], "34" * 8: [batch.context]}


async def test_what_is_rolled_back_is_not_told(rig: Rig, traces: Traces) -> None:
    await rig.run("alter table saga add constraint forbidden check (business_key <> 'ORD-1')")
    with pytest.raises(Exception, match="forbidden"):
        await rig.process(traced(rig.start_record(), CLIENT))
    assert traces.told() == []


async def test_a_saga_that_nobody_traces_has_a_trace_id_and_no_span(rig: Rig) -> None:
    await rig.process(rig.start_record())
    first = await written(rig)
    assert len({text.split("-")[1] for text in first}) == 1
    assert {text[-2:] for text in first} == {"00"}
