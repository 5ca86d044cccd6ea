"""An idle consumer that Kafka no longer answers is told from an idle topic."""

import asyncio
from typing import cast

import pytest
from aiokafka import AIOKafkaConsumer

from sagabus_bus import BusUnavailable
from sagabus_bus.silence import Silence


class FakeClient:
    """The part of the driver that keeps the metadata in a task of its own."""

    _sync_task: asyncio.Future[None] | None = None


class FakeConsumer:
    def __init__(self) -> None:
        self._client = FakeClient()
        self.stamps: dict[str, int | None] = {"p0": None, "p1": None}

    def assignment(self) -> set[str]:
        return set(self.stamps)

    def last_poll_timestamp(self, partition: str) -> int | None:
        return self.stamps[partition]


class Pulse:
    stopping = False
    trouble: str | None = None

    def beat(self) -> None:
        self.trouble = None

    def excuse(self, trouble: str) -> None:
        self.trouble = trouble

    async def pause(self, ms: float) -> bool:
        return False


@pytest.fixture
def consumer() -> FakeConsumer:
    return FakeConsumer()


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def silence(consumer: FakeConsumer, now: list[float]) -> Silence:
    return Silence(cast("AIOKafkaConsumer", consumer), 5_000, 45_000, lambda: now[0])


def test_answers_without_records_are_no_silence(
    silence: Silence, consumer: FakeConsumer, now: list[float]
) -> None:
    pulse = Pulse()
    for second in range(100):
        now[0], consumer.stamps["p1"] = float(second), second
        silence.report(pulse)
        assert pulse.trouble is None


def test_no_answer_makes_not_ready_and_then_asks_for_a_new_consumer(
    silence: Silence, now: list[float]
) -> None:
    pulse = Pulse()
    silence.report(pulse)
    now[0] = 6.0
    silence.report(pulse)
    assert pulse.trouble == "no answer from Kafka for 6000 ms"
    now[0] = 46.0
    with pytest.raises(BusUnavailable):
        silence.report(pulse)


def test_a_member_without_partitions_has_nothing_to_hear(
    silence: Silence, consumer: FakeConsumer, now: list[float]
) -> None:
    consumer.stamps.clear()
    now[0] = 1000.0
    pulse = Pulse()
    silence.report(pulse)
    assert pulse.trouble is None


def test_records_end_a_silence(silence: Silence, now: list[float]) -> None:
    pulse = Pulse()
    silence.report(pulse)
    now[0] = 44.0
    silence.reset()
    silence.report(pulse)
    assert pulse.trouble is None


async def test_a_driver_that_follows_no_metadata_any_more_is_built_anew(
    silence: Silence, consumer: FakeConsumer
) -> None:
    """Its fetches go on until a leader moves, and then end without a word."""
    keeper = asyncio.get_running_loop().create_future()
    consumer._client._sync_task = keeper
    silence.report(Pulse())
    keeper.set_result(None)
    with pytest.raises(BusUnavailable, match="metadata"):
        silence.report(Pulse())
