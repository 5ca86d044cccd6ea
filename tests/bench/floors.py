"""Physical floors of a saga, measured beside it: the same durable writes and records, bare.

Rate: as many WAL bytes as rows of one table in batches of 500, then as many records of a saga's
size through Kafka in batches of 500. Latency: the eight commits and eight hops that a three-step
saga has one after the other, each alone.
"""

from __future__ import annotations

import time
from typing import Final

import asyncpg
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from tests.bench.unit import Bench

__all__ = ["latency_floor_ms", "rate_floor"]

BATCH: Final = 500
ROW: Final = b"x" * 400
HOPS: Final = 8
"""Start, three commands, three results, the news of the end."""
COMMITS: Final = 7
"""Three of the participant, four of the orchestrator; the relay commits after the hop."""


async def rate_floor(
    bench: Bench, *, wal_bytes: float, records: float, sagas: int = 2_000
) -> float:
    """Return sagas per second if nothing were done but writing what one saga writes."""
    rows = max(1, round(wal_bytes * sagas / (len(ROW) + 60)))
    took = []
    for _ in range(3):
        wrote = await _into_postgres(bench, rows)
        took.append(wrote + await _through_kafka(bench, round(records * sagas)))
    return sagas / min(took)


async def _into_postgres(bench: Bench, rows: int) -> float:
    """Return the seconds that so many rows of one table need, in durable batches."""
    conn = await bench.connect("orchestrator")
    try:
        await conn.execute("create table if not exists bench_floor (id bigint, body bytea)")
        began = time.perf_counter()
        for first in range(0, rows, BATCH):
            batch = list(range(first, min(first + BATCH, rows)))
            await conn.execute(
                "insert into bench_floor select * from unnest($1::bigint[], $2::bytea[])",
                batch,
                [ROW] * len(batch),
            )
        wrote = time.perf_counter() - began
        await conn.execute("drop table bench_floor")
    finally:
        await conn.close()
    return wrote


async def _through_kafka(bench: Bench, count: int) -> float:
    """Return the seconds that so many records need through Kafka, in and out."""
    topic = bench.system.topics.lifecycle
    producer = AIOKafkaProducer(
        bootstrap_servers=bench.stack.kafka.bootstrap, acks="all", enable_idempotence=True
    )
    place = TopicPartition(topic, 0)
    consumer = AIOKafkaConsumer(bootstrap_servers=bench.stack.kafka.bootstrap)
    await producer.start()
    await consumer.start()
    try:
        consumer.assign([place])
        await consumer.seek_to_end(place)
        await consumer.position(place)
        began, seen = time.perf_counter(), 0
        for first in range(0, count, BATCH):
            batch = producer.create_batch()
            sent = 0
            while first + sent < count and sent < BATCH:
                if batch.append(key=None, value=ROW * 2, timestamp=None) is None:
                    break
                sent += 1
            batch.close()
            await (await producer.send_batch(batch, topic, partition=0))
            seen += sent
        read = 0
        while read < seen:
            got = await consumer.getmany(place, timeout_ms=1000)
            read += sum(len(found) for found in got.values())
        return (time.perf_counter() - began) * count / max(seen, 1)
    finally:
        await producer.stop()
        await consumer.stop()


async def latency_floor_ms(bench: Bench, rounds: int = 100) -> float:
    """Return the milliseconds of a saga's commits and hops, one after the other, without work."""
    return HOPS * await _hop_ms(bench, rounds) + COMMITS * await _commit_ms(bench, rounds)


async def _hop_ms(bench: Bench, rounds: int) -> float:
    topic = bench.system.topics.lifecycle
    place = TopicPartition(topic, 0)
    server = bench.stack.kafka.bootstrap
    producer = AIOKafkaProducer(bootstrap_servers=server, acks="all", enable_idempotence=True)
    consumer = AIOKafkaConsumer(bootstrap_servers=server)
    await producer.start()
    await consumer.start()
    try:
        consumer.assign([place])
        await consumer.seek_to_end(place)
        await consumer.position(place)
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            await producer.send_and_wait(topic, ROW, partition=0)
            await consumer.getone(place)
            took.append(time.perf_counter() - began)
    finally:
        await producer.stop()
        await consumer.stop()
    return sorted(took)[rounds // 2] * 1000


async def _commit_ms(bench: Bench, rounds: int) -> float:
    conn: asyncpg.Connection = await bench.connect("orchestrator")
    try:
        await conn.execute("create table if not exists bench_commit (body bytea)")
        took = []
        for _ in range(rounds):
            began = time.perf_counter()
            async with conn.transaction():
                await conn.execute("insert into bench_commit values ($1)", ROW)
            took.append(time.perf_counter() - began)
        await conn.execute("drop table bench_commit")
    finally:
        await conn.close()
    return sorted(took)[rounds // 2] * 1000
