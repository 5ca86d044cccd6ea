"""Reads what was published: the heads that lifecycle events carried, from Kafka as it is now."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from sagabus_bus import Excerpt, KafkaConnection, TopicAdmin, partition_of
from sagabus_core.ids import shard_of
from sagabus_messages import Lifecycle, MessageError, Record, Topics, decode, unpack_headers
from sagabus_orchestrator.audit.findings import Progress, Report, Scope
from sagabus_orchestrator.audit.witness import PublishedHead, Witness
from sagabus_store import Database, Queries

__all__ = ["call_witness", "hear", "hear_outbox"]

SQL = Queries("sagabus_orchestrator", "sql/verify.sql")
_PREFETCH: Final = 500
_SKEW_MS: Final = 600_000
"""A record may bear an earlier time than its event, by the difference of two clocks."""


async def call_witness(
    database: Database,
    connection: KafkaConnection,
    topics: Topics,
    scope: Scope,
    progress: Progress,
    *,
    widely: bool = False,
) -> Witness:
    """Return what outbox and lifecycle topic say about the sagas in scope; close it.

    Of one saga only the partition of its key is read, unless `widely`: heads from before the topic
    was given more partitions are in another one. Raises `BusUnavailable` and `TopicUnavailable`.
    """
    async with TopicAdmin(connection) as admin:
        await admin.require([topics.lifecycle])
        partitions = (await admin.partition_counts([topics.lifecycle]))[topics.lifecycle]
    witness = Witness(await database.now_ms(), partitions)
    try:
        await hear_outbox(database, topics, scope, witness)
        only = None
        if scope.saga_id is not None and not widely:
            only = [partition_of(scope.saga_id.encode(), partitions)]
        since_ms = None if scope.since is None else int(scope.since.timestamp() * 1000) - _SKEW_MS
        report = Report()
        async with Excerpt(connection, topics.lifecycle, only=only, since_ms=since_ms) as excerpt:
            report.to_read = excerpt.size
            async for records in excerpt.batches():
                hear(records, topics, scope, witness)
                report.read += len(records)
                progress(report)
    except BaseException:
        witness.__exit__(None, None, None)
        raise
    return witness


async def hear_outbox(database: Database, topics: Topics, scope: Scope, witness: Witness) -> None:
    """Take in lifecycle events that are not published: they wait, or somebody discarded them."""
    key = None if scope.saga_id is None else scope.saga_id.encode()
    shard = None if key is None else shard_of(key)
    async with database.transaction(isolation="repeatable_read") as conn:
        rows = conn.cursor(SQL["unpublished"], topics.lifecycle, key, shard, prefetch=_PREFETCH)
        async for row in rows:
            headers = unpack_headers(row["headers"])
            record = Record(topics.lifecycle, 0, 0, row["key"], row["value"], headers, 0)
            witness.waiting(_heads_of([record], topics, scope))


def hear(records: Iterable[Record], topics: Topics, scope: Scope, witness: Witness) -> None:
    """Take in records of the lifecycle topic, in their order."""
    found = list(records)
    for record in found:
        witness.began(record.partition, record.timestamp_ms)
    witness.published(_heads_of(found, topics, scope))


def _heads_of(records: Iterable[Record], topics: Topics, scope: Scope) -> Iterable[PublishedHead]:
    """Yield the heads of sagas in scope; what is no lifecycle event of ours is no testimony."""
    since_ms = None if scope.since is None else int(scope.since.timestamp() * 1000)
    key = None if scope.saga_id is None else scope.saga_id.encode()
    for record in records:
        if key is not None and record.key != key:
            continue
        head = _head(record, topics)
        if head is not None and (since_ms is None or head.at_ms >= since_ms):
            yield head


def _head(record: Record, topics: Topics) -> PublishedHead | None:
    try:
        body = decode(record, topics).body
    except MessageError:
        return None
    if not isinstance(body, Lifecycle) or body.journal_head is None or body.revision is None:
        return None  # the answer to a start that created nothing
    return PublishedHead(body.saga_id, body.revision, body.journal_head, body.occurred_at_ms)
