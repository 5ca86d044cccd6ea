"""`sagabus why` explains every kind of waiting, on real servers; the relay is the test."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from sagabus_bus import (
    BatchSubscriber,
    KafkaConnection,
    Published,
    Publisher,
    Reason,
    Subscription,
    TopicAdmin,
)
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import OutboxRow, Record, unpack_headers
from sagabus_runtime.health import Pulse
from sagabus_testkit import eventually
from sagabus_testkit.stack import Kafka

from .support import TOPICS, Rig, commands, order, pause

OWNERS = ("inventory", "payment", "shipping")
COMMANDS = TOPICS.command("inventory")
Why = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
def why(shell: Callable[..., Awaitable[dict[str, Any]]], kafka: Kafka) -> Why:
    async def ask(key: str = "ORD-1", bus: str | None = None) -> dict[str, Any]:
        return await shell("--kafka", bus or kafka.bootstrap, "why", key)

    return ask


@pytest.fixture
async def waiting(rig: Rig) -> Rig:
    """A saga whose first step has plenty of time."""
    slow = order(2)
    slow["steps"]["reserve"]["execute"]["timeout_ms"] = 600_000  # type: ignore[index,call-overload]  # JSON
    await rig.publish(slow)
    await rig.process(rig.start_record())
    return rig


class Reader:
    """A participant that reads and does nothing."""

    async def process(self, records: Sequence[Record]) -> None:
        del records

    async def dead_letter(self, record: Record, reason: Reason, attempts: int) -> None:
        raise AssertionError(reason)


@asynccontextmanager
async def participant(connection: KafkaConnection) -> AsyncIterator[None]:
    stop = asyncio.Event()
    wanted = Subscription("sagabus.inventory.v1", (COMMANDS,))
    reading = BatchSubscriber(connection, wanted, Reader()).run(Pulse("bus", 60_000, stop))
    task = asyncio.create_task(reading)
    try:
        yield
    finally:
        stop.set()
        with suppress(asyncio.CancelledError):
            await task


async def relay(rig: Rig, connection: KafkaConnection) -> int:
    """Send everything; returns the partition of the command."""
    async with rig.database.connection() as conn:
        found = await conn.fetch("select * from outbox order by id")
    rows = [
        OutboxRow(r["topic"], r["key"], unpack_headers(r["headers"]), r["value"]) for r in found
    ]
    publisher = Publisher(connection)
    outcomes = await publisher.publish(rows)
    await publisher.close()
    await rig.run("delete from outbox")
    (place,) = [o for r, o in zip(rows, outcomes, strict=True) if r.topic == COMMANDS]
    assert isinstance(place, Published)
    return place.partition


def place(said: dict[str, Any], topic: str) -> dict[str, Any]:
    found: dict[str, Any] = next(p for p in said["topics"] if p["topic"] == topic)
    return found


def about(said: dict[str, Any], topic: str) -> str:
    return "; ".join(point["text"] for point in said["points"] if point["about"] == topic)


async def test_why_follows_a_command_from_the_outbox_to_its_answer(
    waiting: Rig, why: Why, kafka: Kafka
) -> None:
    connection = KafkaConnection(kafka.bootstrap, "test")
    said = await why()
    assert (said["waits_for"], said["status"]) == ("topic", "RUNNING")
    assert COMMANDS in said["moved_by"]
    (command,) = said["commands"]
    assert (command["step"], command["phase"], command["attempt"]) == ("reserve", "EXECUTE", 1)
    assert command["participant"] == "inventory"
    assert said["armed_at"] == command["deadline_at"]
    assert {row["topic"] for row in said["outbox"]} >= {COMMANDS, TOPICS.wakeup_request}

    async with TopicAdmin(connection) as admin:
        await admin.ensure(TOPICS.catalogue(OWNERS, partitions=3))
    said = await why()
    assert said["waits_for"] == "participant"
    assert "EXECUTE reserve attempt 1 waits in the outbox" in about(said, "outbox")
    await waiting.run("update outbox set created_at = created_at - interval '1 minute'")
    assert (await why())["waits_for"] == "relay"

    await waiting.run(
        "with moved as (delete from outbox where topic = $1 returning *) insert into outbox_parked"
        " (id, shard, topic, key, headers, value, created_at, reason)"
        " select id, shard, topic, key, headers, value, created_at, 'record_too_large' from moved",
        COMMANDS,
    )
    said = await why()
    assert (said["waits_for"], said["moved_by"].count("record_too_large")) == ("redrive", 1)
    await waiting.run(
        "insert into outbox overriding system value select id, shard, topic, key, headers, value,"
        " created_at from outbox_parked"
    )
    await waiting.run("delete from outbox_parked")

    partition = await relay(waiting, connection)
    said = await why()
    where = place(said, COMMANDS)
    assert said["waits_for"] == "participant"
    assert "nobody reads" in said["moved_by"]
    assert (where["partition"], where["committed"], where["live_members"]) == (partition, None, 0)

    async with participant(connection):

        async def handled() -> bool:
            found = await why()
            return bool(found["waits_for"] == "answer")

        await eventually(handled, within=30)
        said = await why()
        where = place(said, COMMANDS)
        assert (where["committed"], where["end"], where["live_members"]) == (1, 1, 1)
        assert "inventory's answer to EXECUTE reserve attempt 1" in said["moved_by"]
    assert said["outbox"] == []


async def test_why_tells_what_people_and_the_reconciler_have_to_do(waiting: Rig, why: Why) -> None:
    (command,) = commands(waiting.sent)
    await waiting.operations.perform("acme", waiting.saga("ORD-1"), pause("p"))
    await waiting.process(waiting.result_record(command, ResultStatus.HALTED))
    said = await why()
    assert (said["waits_for"], said["control"], said["deferred"]) == ("resume", "PAUSED", 1)
    assert "by ada" in about(said, "paused")
    assert "because" in about(said, "paused")

    (other,) = commands(await waiting.process(waiting.start_record("ORD-2")))
    await waiting.process(waiting.result_record(other, ResultStatus.HALTED))
    said = await why("ORD-2")
    assert (said["waits_for"], said["reasons"]) == ("person", {"activation:reserve": "step_halted"})
    assert "late_fact, record_outcome, retry" in about(said, "manual")

    await waiting.process(waiting.start_record("ORD-3"))
    await waiting.run(
        "insert into reconciler_finding values"
        " ($1, 'unreadable', 'the snapshot cannot be read', 1, now(), now(), null)",
        waiting.saga("ORD-3"),
    )
    assert (await why("ORD-3"))["waits_for"] == "repair"

    (third,) = commands(await waiting.process(waiting.start_record("ORD-4")))
    await waiting.process(waiting.result_record(third, ResultStatus.REJECTED))
    said = await why("ORD-4")
    assert (said["waits_for"], said["moved_by"]) == ("nothing", "nothing: it ended COMPENSATED")


async def test_why_answers_without_kafka(waiting: Rig, why: Why) -> None:
    said = await why(bus="127.0.0.1:1")
    assert said["topics"] == []
    assert said["kafka_problem"]
    assert "Kafka not reachable" in about(said, "kafka")
    assert said["waits_for"] == "answer"
    assert "reserve" in said["moved_by"]
    del waiting
