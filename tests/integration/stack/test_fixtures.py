"""The fixtures that every test on real servers builds on."""

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from sagabus_testkit import Kafka


async def test_each_test_gets_an_empty_database_on_a_durable_server(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        for setting in ("fsync", "synchronous_commit", "full_page_writes"):
            assert await connection.fetchval(f"show {setting}") == "on"
        assert await connection.fetchval("select count(*) from pg_stat_user_tables") == 0
        await connection.execute("create extension pg_stat_statements")
        assert await connection.fetchval("select count(*) from pg_stat_statements") >= 0
    finally:
        await connection.close()


async def test_a_record_comes_back_from_the_broker(kafka: Kafka, topic_prefix: str) -> None:
    topic = f"{topic_prefix}.hello"
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka.bootstrap)
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(
        bootstrap_servers=kafka.bootstrap, acks="all", enable_idempotence=True
    ) as producer:
        await producer.send_and_wait(topic, b"hello")
    async with AIOKafkaConsumer(
        topic, bootstrap_servers=kafka.bootstrap, auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).value == b"hello"
