"""Faults: what was acknowledged survives them, and addresses stay."""

import asyncio
from collections.abc import AsyncIterator, Callable

import asyncpg
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sagabus_testkit import Kafka, Postgres, TcpProxy, eventually


async def create_topic(kafka: Kafka, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()


async def produce(bootstrap: str, topic: str, value: bytes) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks="all", enable_idempotence=True
    ) as producer:
        await producer.send_and_wait(topic, value)


async def read_all(bootstrap: str, topic: str) -> list[bytes]:
    partition = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        end = (await consumer.end_offsets([partition]))[partition]
        values: list[bytes] = []
        while await consumer.position(partition) < end:
            batch = await consumer.getmany(partition, timeout_ms=500)
            values += [record.value for record in batch.get(partition, [])]
        return values


@pytest.mark.parametrize("fault", [Kafka.stop, Kafka.kill], ids=["stop", "kill"])
async def test_kafka_keeps_what_it_acknowledged(
    fault: Callable[[Kafka], None], kafka: Kafka, topic_prefix: str
) -> None:
    topic = f"{topic_prefix}.kept"
    await create_topic(kafka, topic)
    await produce(kafka.bootstrap, topic, b"before")
    before = kafka.pid
    await asyncio.to_thread(fault, kafka)
    assert kafka.pid is None
    await asyncio.to_thread(kafka.start)
    assert kafka.pid != before
    await produce(kafka.bootstrap, topic, b"after")
    assert await read_all(kafka.bootstrap, topic) == [b"before", b"after"]


def stop_immediately(postgres: Postgres) -> None:
    postgres.stop("immediate")


@pytest.mark.parametrize("fault", [Postgres.stop, stop_immediately, Postgres.kill])
async def test_postgres_keeps_what_it_committed(
    fault: Callable[[Postgres], None], postgres: Postgres, database: str
) -> None:
    connection = await asyncpg.connect(database)
    await connection.execute("create table t as select 42 as answer")
    before = postgres.pid
    await asyncio.to_thread(fault, postgres)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.fetchval("select 1")
    await asyncio.to_thread(postgres.start)
    assert postgres.pid != before
    connection = await asyncpg.connect(database)
    assert await connection.fetchval("select answer from t") == 42
    await connection.close()


async def test_a_frozen_server_is_silent_and_thaws(kafka: Kafka, topic_prefix: str) -> None:
    topic = f"{topic_prefix}.frozen"
    await create_topic(kafka, topic)
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap) as producer:
        await producer.send_and_wait(topic, b"1")
        kafka.pause()
        try:
            sent = await producer.send(topic, b"2")
            done, _ = await asyncio.wait([sent], timeout=0.3)
            assert not done
        finally:
            kafka.resume()
        await asyncio.wait_for(sent, 20)


@pytest.fixture
async def kafka_proxy(kafka: Kafka) -> AsyncIterator[TcpProxy]:
    assert kafka.proxied is not None
    door = kafka.proxied
    async with TcpProxy(door.port, listen_port=door.advertised_port) as proxy:
        yield proxy


async def test_a_kafka_client_cannot_get_around_the_proxy(
    kafka: Kafka, kafka_proxy: TcpProxy, topic_prefix: str
) -> None:
    assert kafka.proxied is not None
    topic = f"{topic_prefix}.proxied"
    await create_topic(kafka, topic)
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.proxied.bootstrap, retry_backoff_ms=20
    ) as producer:
        await producer.send_and_wait(topic, b"1")
        kafka_proxy.stall("to_client")
        sent = await producer.send(topic, b"2")
        done, _ = await asyncio.wait([sent], timeout=0.3)
        assert not done
        await kafka_proxy.restore()
        await asyncio.wait_for(sent, 10)
        kafka_proxy.cut()
        await asyncio.wait_for(producer.send_and_wait(topic, b"3"), 10)
    assert (await read_all(kafka.bootstrap, topic))[-1] == b"3"


async def test_postgres_behind_the_proxy(postgres: Postgres, database: str) -> None:
    name = database.rpartition("/")[2]
    async with TcpProxy(postgres.port) as proxy:
        connection = await asyncpg.connect(postgres.dsn_for(name, port=proxy.port))
        assert await connection.fetchval("select 1") == 1
        proxy.stall("to_client")
        with pytest.raises(TimeoutError):
            await connection.fetchval("select 2", timeout=0.2)
        proxy.cut()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("select 3")
        await proxy.refuse()
        with pytest.raises(OSError, match=r"111|refused|failed"):
            await asyncpg.connect(postgres.dsn_for(name, port=proxy.port))
        await proxy.restore()
        connection = await asyncpg.connect(postgres.dsn_for(name, port=proxy.port))
        assert await connection.fetchval("select 4") == 4
        await connection.close()
        await eventually(lambda: proxy.connections == 0)
