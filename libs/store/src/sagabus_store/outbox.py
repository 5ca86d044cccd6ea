"""The outbox: records to publish, written in the transaction of their cause.

Order per (topic, key) is id order. An id is drawn while the writer holds a lock of that key until
its commit (the saga row, or the lock of `append_locked`), so ids of one key rise in commit order.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

from sagabus_core.ids import shard_of
from sagabus_messages.record import OutboxRow, pack_headers
from sagabus_store.database import Connection
from sagabus_store.queries import Queries

__all__ = ["LOCK_SPACE", "SQL", "STRIPES", "append", "append_locked"]

SQL: Final = Queries("sagabus_store", "sql/outbox.sql")
"""Appending, and the reading side for the relay: `fetch_outbox`, `delete_outbox`."""

LOCK_SPACE: Final = 0x5A6A
"""First half of the advisory locks of outbox keys."""
STRIPES: Final = 1024
"""Keys share this many locks: one lock per key could exhaust the server's lock table."""


async def append(conn: Connection, rows: Sequence[OutboxRow]) -> None:
    """Append `rows` within the caller's transaction, in one statement; ids rise in their order.

    The caller holds a lock that orders the writers of each row's key (the saga's row).
    """
    if rows:
        await conn.execute(SQL["append_outbox"], *_columns(rows))


async def append_locked(conn: Connection, rows: Sequence[OutboxRow]) -> None:
    """Append `rows` for callers who hold no lock of the keys: take transaction locks first.

    One statement. Writers of the same (topic, key) wait for each other until commit; a second
    call in the same transaction can deadlock with another one, which is retryable: call it once.
    """
    stripes = sorted({_stripe(row.topic, row.key) for row in rows if row.key is not None})
    if stripes:
        await conn.execute(SQL["append_outbox_locked"], *_columns(rows), LOCK_SPACE, stripes)
    else:
        await append(conn, rows)


def _columns(rows: Sequence[OutboxRow]) -> tuple[list[object], ...]:
    return (
        [shard_of(row.key) for row in rows],
        [row.topic for row in rows],
        [row.key for row in rows],
        [pack_headers(row.headers) for row in rows],
        [row.value for row in rows],
    )


def _stripe(topic: str, key: bytes) -> int:
    digest = hashlib.sha256(topic.encode() + b"\0" + key).digest()
    return int.from_bytes(digest[:8], "big") % STRIPES
