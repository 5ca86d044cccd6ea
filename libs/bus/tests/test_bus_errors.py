"""Driver errors become ours, in one place, and each says whether waiting helps."""

import asyncio

import pytest
from aiokafka import errors as kafka

from sagabus_bus import (
    BusMisconfigured,
    BusUnavailable,
    ProducerFenced,
    RecordRefused,
    TopicUnavailable,
    translate,
)
from sagabus_bus.errors import translated
from sagabus_core.errors import SagabusError


@pytest.mark.parametrize(
    ("error", "expected", "code", "retryable"),
    [
        (kafka.MessageSizeTooLargeError(), RecordRefused, "record_too_large", False),
        (kafka.InvalidTimestampError(), RecordRefused, "record_invalid", False),
        (kafka.UnknownTopicOrPartitionError(), TopicUnavailable, "topic_missing", True),
        (kafka.TopicAuthorizationFailedError("t"), TopicUnavailable, "topic_forbidden", True),
        (kafka.ProducerFenced(), ProducerFenced, "producer_fenced", False),
        (kafka.InvalidProducerEpoch(), ProducerFenced, "producer_fenced", False),
        (kafka.GroupAuthorizationFailedError("g"), BusMisconfigured, "bus_misconfigured", True),
        (kafka.KafkaConnectionError("refused"), BusUnavailable, "bus_unavailable", True),
        (kafka.OutOfOrderSequenceNumber(), BusUnavailable, "bus_unavailable", True),
        (kafka.NotEnoughReplicasError(), BusUnavailable, "bus_unavailable", True),
        (TimeoutError(), BusUnavailable, "bus_unavailable", True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_translation(
    error: Exception, expected: type[SagabusError], code: str, retryable: bool
) -> None:
    ours = translate(error, "send to orders")
    assert (type(ours), ours.code, ours.retryable) == (expected, code, retryable)
    assert ours.detail.startswith("send to orders: ")


def test_our_own_errors_pass_unchanged() -> None:
    ours = RecordRefused("record_too_large", "no")
    assert translate(ours, "x") is ours


def test_what_the_event_loop_says_of_a_closed_transport_is_an_outage() -> None:
    with pytest.raises(BusUnavailable, match="handler is closed"), translated("commit"):
        raise RuntimeError("unable to perform operation on <TCPTransport>; the handler is closed")


async def test_a_cancellation_of_the_drivers_own_is_an_outage() -> None:
    request: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    request.cancel()
    with pytest.raises(BusUnavailable, match="the driver gave up"), translated("commit"):
        await request


async def test_a_cancellation_of_the_caller_stays_one() -> None:
    async def work() -> None:
        with translated("commit"):
            await asyncio.get_running_loop().create_future()

    task = asyncio.create_task(work())
    await asyncio.wait({task}, timeout=0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_deadline_within_is_an_outage() -> None:
    with pytest.raises(BusUnavailable, match="commit: TimeoutError"), translated("commit"):
        async with asyncio.timeout(0):
            await asyncio.get_running_loop().create_future()
