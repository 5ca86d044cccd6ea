"""Offsets are committed after a batch, not after each of many small ones, and never too far."""

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import CommitFailedError

from sagabus_bus import BusUnavailable
from sagabus_bus.committing import Committer
from sagabus_bus.events import ConsumerEvents


class Consumer:
    """Counts commits; an error or a hang may be asked for."""

    def __init__(self, answer: Exception | None = None, *, hangs: bool = False) -> None:
        self.commits = 0
        self._answer, self._hangs = answer, hangs

    async def commit(self) -> None:
        self.commits += 1
        if self._hangs:
            await asyncio.Event().wait()
        if self._answer is not None:
            raise self._answer


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def committer(consumer: Consumer, clock: Clock, timeout_ms: int = 1_000) -> Committer:
    return Committer(
        cast("AIOKafkaConsumer", consumer),
        ConsumerEvents("g", None),
        every_ms=100,
        timeout_ms=timeout_ms,
        clock=clock,
    )


async def test_the_first_batch_is_committed_at_once_and_the_next_when_it_is_time() -> None:
    consumer, clock = Consumer(), Clock()
    subject = committer(consumer, clock)
    await subject.note()
    assert consumer.commits == 1
    clock.now_s = 0.04
    await subject.note()
    await subject.commit_if_due()
    assert consumer.commits == 1
    assert 60 <= subject.patience_ms(200) <= 61
    clock.now_s = 0.1
    await subject.commit_if_due()
    assert consumer.commits == 2
    assert subject.patience_ms(200) == 200


async def test_what_is_open_is_committed_at_the_end_and_nothing_twice() -> None:
    consumer, clock = Consumer(), Clock()
    subject = committer(consumer, clock)
    await subject.note()
    await subject.note()
    await subject.commit()
    await subject.commit()
    assert consumer.commits == 2


async def test_positions_that_are_not_to_be_trusted_are_not_committed() -> None:
    consumer, clock = Consumer(), Clock()
    subject = committer(consumer, clock)
    await subject.note()
    await subject.note()
    subject.forget()
    await subject.commit()
    assert consumer.commits == 1


async def test_trap_14_a_commit_that_never_returns_asks_for_a_new_consumer() -> None:
    with pytest.raises(BusUnavailable, match="commit offsets"):
        await committer(Consumer(hangs=True), Clock(), timeout_ms=1).note()


async def test_a_commit_that_a_rebalance_refused_is_no_failure() -> None:
    consumer = Consumer(CommitFailedError())
    await committer(consumer, Clock()).note()
    assert consumer.commits == 1
