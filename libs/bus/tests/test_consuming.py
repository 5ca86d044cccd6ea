"""A driver that does not come back, or cannot decode, never holds or harms the loop."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError, GroupAuthorizationFailedError

from sagabus_bus import (
    BatchSubscriber,
    BusMisconfigured,
    BusUnavailable,
    KafkaConnection,
    Publisher,
    Reason,
    RowPublisher,
    Subscription,
    consuming,
)
from sagabus_bus.consuming import UnreadableRecord, poll
from sagabus_messages.record import Record


@dataclass
class Raw:
    topic: str = "t"
    partition: int = 0
    offset: int = 5
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = (("a", None), ("b", b"\xff"))
    timestamp: int = 7


class FakeConsumer:
    """Answers each call with the next answer: a value, an error, or None for never."""

    def __init__(self, *answers: object) -> None:
        self._answers = list(answers)

    async def getmany(self, **_: object) -> object:
        return await self._answer()

    async def commit(self) -> object:
        return await self._answer()

    async def _answer(self) -> object:
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if answer is None:
            await asyncio.get_running_loop().create_future()
        return answer


class Nothing:
    async def process(self, records: Sequence[Record]) -> None: ...

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None: ...


def fake(*answers: object) -> AIOKafkaConsumer:
    return cast("AIOKafkaConsumer", FakeConsumer(*answers))


def subscriber() -> BatchSubscriber:
    wanted = Subscription("g", ("t",), commit_timeout_ms=1)
    return BatchSubscriber(KafkaConnection("127.0.0.1:1", "test"), wanted, Nothing())


async def test_records_come_as_they_are() -> None:
    (record,) = await poll(fake({"p": [Raw()]}), 10, 500)
    assert record == Record("t", 0, 5, None, None, (("a", b""), ("b", b"\xff")), 7)


async def test_a_poll_that_never_returns_is_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming, "POLL_GRACE_MS", 1)
    with pytest.raises(BusUnavailable, match="fetch records"):
        await poll(fake(None), 1, 500)


async def test_what_cannot_be_decoded_is_said() -> None:
    with pytest.raises(UnreadableRecord):
        await poll(fake(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid")), 1, 500)


async def test_a_fatal_error_of_the_consumer_comes_out() -> None:
    with pytest.raises(BusMisconfigured):
        await poll(fake(GroupAuthorizationFailedError("g")), 1, 500)


async def test_trap_14_a_commit_that_never_returns_asks_for_a_new_consumer() -> None:
    with pytest.raises(BusUnavailable, match="commit offsets"):
        await subscriber()._commit(fake(None))


async def test_a_commit_that_a_rebalance_refused_is_no_failure() -> None:
    await subscriber()._commit(fake(CommitFailedError()))


def test_the_publisher_keeps_its_port() -> None:
    port: RowPublisher = Publisher(KafkaConnection("127.0.0.1:1", "test"))
    assert port is not None


class Fetcher:
    """The part of the driver that fetches, with its task."""

    def __init__(self, work: Coroutine[None, None, None]) -> None:
        self._fetch_task = asyncio.create_task(work)


async def test_a_consumer_whose_driver_broke_is_not_asked_any_more() -> None:
    async def breaks() -> None:
        raise RuntimeError("the handler is closed")

    consumer = FakeConsumer({})
    fetcher = Fetcher(breaks())
    vars(consumer)["_fetcher"] = fetcher
    await asyncio.wait({fetcher._fetch_task})
    with pytest.raises(BusUnavailable, match="the handler is closed"):
        await poll(cast("AIOKafkaConsumer", consumer), 1, 1)


async def test_a_consumer_whose_driver_works_is_asked() -> None:
    async def waits() -> None:
        await asyncio.Event().wait()

    consumer = FakeConsumer({})
    working = Fetcher(waits())
    vars(consumer)["_fetcher"] = working
    assert await poll(cast("AIOKafkaConsumer", consumer), 1, 1) == []
    working._fetch_task.cancel()
