"""Start sagas and learn how they end: one consumer of the lifecycle topic for any number."""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
import uuid
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Final, Self

from opentelemetry.trace import Span, SpanKind

from sagabus_bus import (
    BusError,
    BusMisconfigured,
    KafkaConnection,
    Published,
    Publisher,
    Refused,
    Tail,
)
from sagabus_bus import (
    Outcome as Sent,
)
from sagabus_client.errors import OutcomePending, StartNotSent, StartUnsendable
from sagabus_client.values import Outcome, SagaHandle, StartCommand
from sagabus_client.watching import Watch, WatchTable
from sagabus_core import ids
from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_name
from sagabus_messages import OutboxRow, Record, Stamp, Start, Topics, decode, encode, source_of
from sagabus_messages.errors import MessageError
from sagabus_runtime import Tracing
from sagabus_runtime.names import FIELD_SAGA_ID, SPAN_START

__all__ = ["SagabusClient"]

_RETRY_S: Final = 0.2
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class SagabusClient:
    """Starts sagas through the start topic and follows them on the lifecycle topic.

        async with SagabusClient(connection, Topics("prod.")) as client:
            handle = await client.start(StartCommand("default", "order", "ORD-1", payload))
            outcome = await client.wait(handle)

    Entering takes the position on the lifecycle topic, so that no answer to a later start is
    missed, over outages of Kafka too. `name` becomes the ce_source of the starts. `listener` is
    told every news of every start of this client.
    """

    def __init__(
        self,
        connection: KafkaConnection,
        topics: Topics,
        *,
        name: str = "client",
        listener: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        if _NAME.fullmatch(name) is None:
            raise InvalidValue("invalid_name", f"the client's name {name!r} must match its pattern")
        self._topics = topics
        self._source = source_of(name)
        self._listener = listener
        self._table = WatchTable(self._source)
        self._publisher = Publisher(connection)
        self._tail = Tail(connection, [topics.lifecycle])
        self._reader: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._tail.__aenter__()
        self._reader = asyncio.create_task(self._read(), name="sagabus-client")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reader
        await self._tail.__aexit__(kind, error, trace)
        await self._publisher.close()

    async def start(self, command: StartCommand, timeout_s: float = 30.0) -> SagaHandle:
        """Send one start; see `start_all`."""
        return (await self.start_all([command], timeout_s))[0]

    async def start_all(
        self, commands: Sequence[StartCommand], timeout_s: float = 30.0
    ) -> list[SagaHandle]:
        """Put starts into Kafka and return a handle for each, in order, once all are there.

        Whether they may start is said later, by the lifecycle topic. Where the process traces with
        OpenTelemetry, each start is a span below the running one, and its saga goes on from there;
        elsewhere the orchestrator begins the trace. Raises `StartNotSent` (send
        the same start ids again), `StartUnsendable`, and what is wrong with a value itself.
        """
        now_ms = int(time.time() * 1000)
        handles = [_handle(command, now_ms) for command in commands]
        traces = _Traces(handles)
        rows = [
            self._row(command, handle, Stamp(self._source, now_ms, traceparent))
            for command, handle, traceparent in zip(commands, handles, traces.starts, strict=True)
        ]
        watches = [self._table.add(handle) for handle in handles]
        try:
            async with asyncio.timeout(timeout_s):
                await self._send(rows)
        except TimeoutError as cause:
            self._drop(watches)
            raise StartNotSent(
                "start_not_sent", f"Kafka took not all of {len(rows)} starts in {timeout_s:g} s"
            ) from cause
        except BaseException:
            self._drop(watches)
            raise
        finally:
            traces.end()
        return handles

    async def wait(self, handle: SagaHandle, timeout_s: float | None = None) -> Outcome:
        """Return the outcome of a start: ended, refused, or waiting for an operator.

        Raises `OutcomePending` after `timeout_s`; the saga goes on and may be waited for again.
        """
        watch = self._table.find(handle) or self._table.add(handle)
        try:
            async with asyncio.timeout(timeout_s):
                while watch.settled is None:
                    await self._news(watch)
        except TimeoutError as cause:
            where = watch.latest.status if watch.latest is not None else "not heard of yet"
            raise OutcomePending(
                "outcome_pending", f"{handle.business_key} has no outcome yet: {where}"
            ) from cause
        return watch.settled

    async def first_news(self, handle: SagaHandle, timeout_s: float) -> Outcome | None:
        """Return the first thing that is said about a start, or None after `timeout_s`."""
        watch = self._table.find(handle) or self._table.add(handle)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while watch.latest is None:
                    await self._news(watch)
        return watch.latest

    def latest(self, handle: SagaHandle) -> Outcome | None:
        """Return the last news of a start, or None before the first."""
        watch = self._table.find(handle)
        return watch.latest if watch is not None else None

    def forget(self, handle: SagaHandle) -> None:
        """Keep nothing more about a start, for clients that live long."""
        watch = self._table.find(handle)
        if watch is not None:
            self._table.forget(watch)

    async def _news(self, watch: Watch) -> None:
        if self._reader is None:
            raise InvalidValue("client_closed", "use SagabusClient in `async with`")
        if self._reader.done():
            self._reader.result()
        watch.news.clear()
        waiting = asyncio.create_task(watch.news.wait())
        try:
            await asyncio.wait({waiting, self._reader}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()

    async def _read(self) -> None:
        while True:
            try:
                records = await self._tail.poll()
            except BusError as error:
                if not _passes_by_itself(error):
                    raise
                await asyncio.sleep(_RETRY_S)
                continue
            for record in records:
                self._take(record)

    def _take(self, record: Record) -> None:
        with contextlib.suppress(MessageError):  # not ours to judge
            for outcome in self._table.take(decode(record, self._topics)):
                self._listener(outcome)

    async def _send(self, rows: Sequence[OutboxRow]) -> None:
        """Send until every row is in the log; a repeat carries the same id and is absorbed."""
        waiting = list(rows)
        while waiting:
            try:
                outcomes = await self._publisher.publish(waiting)
            except BusError as error:
                if not _passes_by_itself(error):
                    raise
                await asyncio.sleep(_RETRY_S)
                continue
            waiting = [
                row for row, outcome in zip(waiting, outcomes, strict=True) if not _is_sent(outcome)
            ]
            if waiting:
                await asyncio.sleep(_RETRY_S)

    def _row(self, command: StartCommand, handle: SagaHandle, stamp: Stamp) -> OutboxRow:
        body = Start(
            tenant=command.tenant,
            workflow=command.workflow,
            definition_version=command.version,
            business_key=command.business_key,
            deadline_at_ms=command.deadline_at_ms,
            payload=command.payload,
        )
        return encode(body, self._topics.start, stamp, ce_id=handle.start_id)

    def _drop(self, watches: Sequence[Watch]) -> None:
        for watch in watches:
            self._table.forget(watch)


class _Traces:
    """The spans of some starts, from here to Kafka: the beginning of the trace of each saga."""

    def __init__(self, handles: Sequence[SagaHandle]) -> None:
        self._spans: list[Span] = []
        tracing = Tracing.of_host()
        self.starts = [self._begin(tracing, handle) for handle in handles]

    def _begin(self, tracing: Tracing, handle: SagaHandle) -> str | None:
        attributes = {FIELD_SAGA_ID: handle.saga_id, "workflow": handle.workflow}
        here, span = tracing.begin_here(SPAN_START, attributes, SpanKind.PRODUCER)
        if span is not None:
            self._spans.append(span)
        return here

    def end(self) -> None:
        """Tell about them."""
        for span in self._spans:
            span.end()


def _passes_by_itself(error: BusError) -> bool:
    """Say whether a caller may wait: what people must mend first he is told at once."""
    return error.retryable and not isinstance(error, BusMisconfigured)


def _handle(command: StartCommand, now_ms: int) -> SagaHandle:
    check_name(command.workflow, "workflow")
    return SagaHandle(
        saga_id=ids.saga_id(command.tenant, command.workflow, command.business_key),
        tenant=command.tenant,
        workflow=command.workflow,
        business_key=command.business_key,
        start_id=command.start_id or str(uuid.uuid4()),
        started_at_ms=now_ms,
    )


def _is_sent(outcome: Sent) -> bool:
    if isinstance(outcome, Refused):
        error = outcome.error
        raise StartUnsendable(error.code, error.detail) from error
    return isinstance(outcome, Published)
