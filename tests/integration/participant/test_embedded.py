"""A participant inside somebody else's service: their pool, their loop, their transaction."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any, TypeAlias

import asyncpg
import pytest
from faststream import FastStream
from faststream.kafka import KafkaBroker
from pydantic import BaseModel, SecretStr

from sagabus_bus import KafkaConnection, Publisher, TopicAdmin
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import OutboxRow, Record, Topics
from sagabus_participant import (
    CommandBatches,
    EmbeddedParticipant,
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Participant,
    ParticipantService,
    ParticipantSettings,
    StepOptions,
    Succeeded,
    WorkSettings,
)
from sagabus_participant.faststream import attach
from sagabus_store import MigrationError
from sagabus_testkit import LocalStack, eventually

E: TypeAlias = Phase
Pool: TypeAlias = "asyncpg.Pool[asyncpg.Record]"
Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


class Shelf(LocalStep[Order]):
    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        await ctx.conn.execute("insert into applied values ($1, $2)", ctx.execute_key, order.order)
        return Succeeded()


def shelf() -> Participant:
    participant = Participant("inventory")
    participant.add("reserve", Order, Shelf(), StepOptions())
    return participant


@pytest.fixture
async def rig(rig_of: Rig, topic_prefix: str) -> Rig:
    return await rig_of(shelf(), "reserve", prefix=f"{topic_prefix}.")


@pytest.fixture
async def pool(database: str) -> AsyncIterator[Pool]:
    async with asyncpg.create_pool(database, min_size=1, max_size=3) as opened:
        yield opened


async def produce(stack: LocalStack, prefix: str, *records: Record) -> None:
    connection = KafkaConnection(stack.kafka.bootstrap, "test")
    async with TopicAdmin(connection) as admin:
        await admin.ensure(Topics(prefix).catalogue(["inventory"], partitions=1))
    if records:
        publisher = Publisher(connection)
        await publisher.publish([OutboxRow(r.topic, r.key, r.headers, r.value) for r in records])
        await publisher.close()


async def answered(rig: Rig, count: int) -> None:
    async def enough() -> bool:
        await rig.answers()
        return len(rig.heard) >= count

    await eventually(enough, within=60, what=f"{count} answers")
    assert [result.status for result in rig.heard] == [ResultStatus.SUCCEEDED] * count


async def test_it_works_on_the_pool_of_its_host_and_leaves_it_open(
    stack: LocalStack, rig: Rig, pool: Pool
) -> None:
    prefix = rig.shell.topics.prefix
    await produce(stack, prefix, rig.command(E.EXECUTE, key="a"), rig.command(E.EXECUTE, key="b"))
    settings = WorkSettings(kafka=stack.kafka.bootstrap, topic_prefix=prefix)
    before = signal.getsignal(signal.SIGTERM)
    async with EmbeddedParticipant(shelf(), settings, pool) as embedded:
        await answered(rig, 2)
        assert await embedded.health.failing() == {}
        assert signal.getsignal(signal.SIGTERM) is before, "signals belong to the host"
    assert await embedded.health.failing() == {"service": "stopping"}
    assert await pool.fetchval("select count(*) from applied") == 2


async def test_a_faststream_app_carries_it(stack: LocalStack, rig: Rig, pool: Pool) -> None:
    prefix = rig.shell.topics.prefix
    await produce(stack, prefix, rig.command(E.EXECUTE, key="a"))
    settings = WorkSettings(kafka=stack.kafka.bootstrap, topic_prefix=prefix)
    embedded = EmbeddedParticipant(shelf(), settings, pool)
    app = attach(FastStream(KafkaBroker(stack.kafka.bootstrap)), embedded)
    await app.start()
    await answered(rig, 1)
    await app.stop()
    assert embedded.health.stop.is_set()
    assert await pool.fetchval("select count(*) from applied") == 1


async def test_commands_are_handled_in_the_transaction_of_the_caller(rig: Rig, pool: Pool) -> None:
    batches, record = CommandBatches(rig.shell), rig.command(E.EXECUTE)
    with pytest.raises(ZeroDivisionError):
        async with pool.acquire() as conn, conn.transaction():
            await batches.process_within(conn, [record])
            raise ZeroDivisionError
    assert (await rig.count("applied"), await rig.answers()) == (0, [])
    async with pool.acquire() as conn:
        async with conn.transaction():
            committed = await batches.process_within(conn, [record])
        committed()
    assert (await rig.count("applied"), len(await rig.answers())) == (1, 1)


async def test_tables_of_another_version_are_refused_at_start(database: str) -> None:
    async with asyncpg.create_pool(database, min_size=1, max_size=1) as pool:
        settings = WorkSettings(kafka="127.0.0.1:1")
        with pytest.raises(MigrationError):
            await EmbeddedParticipant(shelf(), settings, pool).start()
    own = ParticipantSettings(
        kafka="127.0.0.1:1", postgres=SecretStr(database), migrate_on_start=False
    )
    service = ParticipantService(shelf(), own)
    with pytest.raises(MigrationError):
        await service.start()
    await service.stop()


async def test_a_loop_that_dies_makes_its_host_unready_and_is_raised_at_the_end(
    stack: LocalStack, rig: Rig, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sagabus_participant.assembly.WORK", {})
    settings = WorkSettings(
        kafka=stack.kafka.bootstrap, topic_prefix=rig.shell.topics.prefix, stop_grace_ms=0
    )
    await produce(stack, rig.shell.topics.prefix)
    embedded = EmbeddedParticipant(shelf(), settings, pool)
    await embedded.start()
    await eventually(lambda: embedded.health.unready == "housekeeping: KeyError", within=20)
    with pytest.raises(KeyError):
        await embedded.stop()
    await asyncio.gather(embedded.stop())
