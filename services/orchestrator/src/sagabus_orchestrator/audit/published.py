"""Reads what was published: the heads that lifecycle events carried, from Kafka as it is now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import Final

from sagabus_bus import KafkaConnection, Tail, TopicAdmin
from sagabus_messages import Lifecycle, MessageError, Record, Topics, decode
from sagabus_orchestrator.audit.verify import PublishedHead

__all__ = ["published_heads"]

_WAIT_MS: Final = 200
_SILENT_POLLS: Final = 25
"""Without a record for five seconds the rest is taken for gone: retention may overtake a reader."""


async def published_heads(
    connection: KafkaConnection, topics: Topics
) -> AsyncIterator[Sequence[PublishedHead]]:
    """Yield every head that the lifecycle topic still holds, from its beginning to its present end.

    Bounded by the topic's retention. Raises `BusUnavailable` and `TopicUnavailable`.
    """
    async with Tail(connection, [topics.lifecycle], begin="beginning") as tail:
        async with TopicAdmin(connection) as admin:
            ends = await admin.end_offsets([topics.lifecycle])
        unread = {partition: end for (_, partition), end in ends.items() if end}
        silent = 0
        while unread and silent < _SILENT_POLLS:
            records = await tail.poll(_WAIT_MS)
            silent = 0 if records else silent + 1
            reached = {record.partition: record.offset + 1 for record in records}
            unread = {p: end for p, end in unread.items() if reached.get(p, 0) < end}
            yield [head for record in records for head in _head(record, topics)]


def _head(record: Record, topics: Topics) -> tuple[PublishedHead, ...]:
    try:
        body = decode(record, topics).body
    except MessageError:
        return ()  # not ours to judge: a forged event has no place in a proof either
    if not isinstance(body, Lifecycle) or body.journal_head is None or body.revision is None:
        return ()  # the answer to a start that created nothing
    at = datetime.fromtimestamp(body.occurred_at_ms / 1000, UTC)
    return (PublishedHead(body.saga_id, body.revision, body.journal_head, at),)
