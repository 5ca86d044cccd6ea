"""The wire between the suite and the participant: one writer, one reader, a letter box per saga."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from sagabus_bus import (
    BusError,
    BusUnavailable,
    KafkaConnection,
    Published,
    Publisher,
    Refused,
    Tail,
)
from sagabus_conformance.errors import ConformanceError
from sagabus_conformance.evidence import Asked, Dead, Heard
from sagabus_messages import (
    MessageError,
    Meta,
    OutboxRow,
    Record,
    Result,
    Topics,
    decode,
    source_of,
    verify_identity,
)

__all__ = ["Box", "Lab", "now_ms"]

RETRY_S: Final = 0.2
SEND_S: Final = 60.0


def now_ms() -> int:
    """Return the time of this machine, epoch milliseconds."""
    return int(time.time() * 1000)


class Box:
    """Everything that was said about one saga; `news` is set by each arrival."""

    def __init__(self, saga_id: str) -> None:
        self.saga_id = saga_id
        self.said: list[Asked | Heard] = []
        self.dead: list[Dead] = []
        self.news = asyncio.Event()

    @property
    def heard(self) -> list[Heard]:
        """What came back, in the order of its arrival."""
        return [each for each in self.said if isinstance(each, Heard)]

    @property
    def results(self) -> list[Result]:
        """The readable answers, in the order of their arrival."""
        return [each.result for each in self.heard if each.result is not None]


class Lab:
    """Writes to a participant's command topic, reads its result and dead-letter topic.

    Use as `async with`: whatever comes after entering is seen, over outages too. Raises on
    entering what the bus raises where the broker or a topic is missing.
    """

    def __init__(self, connection: KafkaConnection, topics: Topics, participant: str) -> None:
        self.topics = topics
        self.participant = participant
        self.command_topic = topics.command(participant)
        self._source = source_of(participant)
        self._publisher = Publisher(connection)
        answers = [topics.result(participant), topics.dlt(self.command_topic)]
        self._tail = Tail(connection, answers)
        self._boxes: dict[str, Box] = {}
        self._reader: asyncio.Task[None] | None = None

    @property
    def boxes(self) -> Sequence[Box]:
        """All letter boxes, in the order in which they were opened."""
        return list(self._boxes.values())

    def open_box(self, saga_id: str) -> Box:
        """Collect from now on what is said about this saga."""
        return self._boxes.setdefault(saga_id, Box(saga_id))

    async def send(self, asked: Sequence[tuple[Box, Asked]]) -> None:
        """Write records in this order and return once all are in the log.

        Raises `BusUnavailable` where Kafka does not take them in a minute.
        """
        for box, each in asked:
            box.said.append(each)
        waiting = [each.row for _, each in asked]
        try:
            async with asyncio.timeout(SEND_S):
                while waiting:
                    self.check()
                    waiting = await self._publish(waiting)
        except TimeoutError as cause:
            raise BusUnavailable("bus_unavailable", f"nothing written in {SEND_S:g} s") from cause

    async def _publish(self, rows: Sequence[OutboxRow]) -> list[OutboxRow]:
        try:
            outcomes = await self._publisher.publish(rows)
        except BusError as error:
            if not error.retryable:
                raise
            outcomes = []
        if not outcomes:
            await asyncio.sleep(RETRY_S)
            return list(rows)
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                raise outcome.error
        pairs = zip(rows, outcomes, strict=True)
        return [row for row, outcome in pairs if not isinstance(outcome, Published)]

    def check(self) -> None:
        """Raise what ended the reader, if it has ended."""
        if self._reader is None:
            raise ConformanceError("lab_closed", "use Lab in `async with`")
        if self._reader.done():
            self._reader.result()

    async def __aenter__(self) -> Self:
        await self._tail.__aenter__()
        self._reader = asyncio.create_task(self._read(), name="sagabus-conformance")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._reader is not None:
            self._reader.cancel()
            with contextlib.suppress(asyncio.CancelledError, BusError):
                await self._reader
        await self._tail.__aexit__(kind, error, trace)
        await self._publisher.close()

    async def _read(self) -> None:
        while True:
            try:
                records = await self._tail.poll()
            except BusError as error:
                if not error.retryable:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            for record in records:
                self._take(record)

    def _take(self, record: Record) -> None:
        box = self._boxes.get((record.key or b"").decode(errors="replace"))
        box = box or self._boxes.get(_saga_in(record.value))
        if box is None:
            return  # somebody else's
        if record.topic.endswith(".dlt"):
            box.dead.append(Dead(now_ms(), record))
        else:
            box.said.append(self._heard(record))
        box.news.set()

    def _heard(self, record: Record) -> Heard:
        try:
            result, meta = self._read_result(record)
        except MessageError as error:
            return Heard(now_ms(), record, None, None, f"{error.code}: {error.detail}")
        return Heard(now_ms(), record, result, meta, None)

    def _read_result(self, record: Record) -> tuple[Result, Meta]:
        envelope = decode(record, self.topics)
        body, source = envelope.body, envelope.meta.source
        if not isinstance(body, Result):
            raise MessageError("wrong_topic", "the record is no result")
        verify_identity(body)
        if source != self._source:
            raise MessageError("producer_mismatch", f"ce_source is {source}, not {self._source}")
        return body, envelope.meta


def _saga_in(value: bytes | None) -> str:
    """Return the saga id of a body whose key says something else."""
    with contextlib.suppress(ValueError, AttributeError):
        return str(json.loads(value or b"").get("saga_id"))
    return ""
