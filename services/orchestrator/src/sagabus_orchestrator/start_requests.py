"""Keys that callers give their starts over HTTP: each statement on their table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

import asyncpg

from sagabus_core.vocabulary import SagaStatus
from sagabus_store import Connection, Queries

__all__ = ["KeptRequest", "RequestKey", "RequestRow", "forget", "keep", "known"]

SQL = Queries("sagabus_orchestrator", "sql/start_requests.sql")

RequestKey: TypeAlias = tuple[str, str]
"""Tenant, and the key that the caller chose."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """A start under a request key, as it is kept."""

    key: RequestKey
    digest: str
    saga_id: str
    start_id: str


@dataclass(frozen=True, slots=True)
class KeptRequest:
    """An earlier start under a request key, and where its saga stands; see also `KnownKey`."""

    row: RequestRow
    status: SagaStatus
    revision: int | None
    version: int

    @classmethod
    def of(cls, row: asyncpg.Record) -> KeptRequest:
        """Return a row of `known_requests`."""
        key = (row["tenant"], row["request_key"])
        kept = RequestRow(key, row["request_digest"], str(row["saga_id"]), row["start_id"])
        return cls(kept, SagaStatus(row["status"]), row["revision"], row["version"])


async def known(conn: Connection, keys: Iterable[RequestKey]) -> dict[RequestKey, KeptRequest]:
    """Return what was started under these keys."""
    wanted = list(keys)
    found = await conn.fetch(SQL["known_requests"], *_columns(wanted, 2))
    return {kept.row.key: kept for kept in map(KeptRequest.of, found)}


async def keep(conn: Connection, rows: Iterable[RequestRow]) -> bool:
    """Note starts under their keys; False if somebody else took one of the keys meanwhile.

    Last of all locks, in key order: whoever holds a request key waits for nothing but such keys.
    """
    ordered = sorted(rows, key=lambda row: row.key)
    if not ordered:
        return True
    values = [(*row.key, row.digest, row.saga_id, row.start_id) for row in ordered]
    return bool(await conn.fetchval(SQL["keep_requests"], *_columns(values, 5)) == len(ordered))


async def forget(conn: Connection, days: int) -> None:
    """Remove keys that are older than this."""
    await conn.execute(SQL["forget_requests"], days)


def _columns(rows: Iterable[tuple[str, ...]], width: int) -> list[list[str]]:
    listed = list(rows)
    return [[row[place] for row in listed] for place in range(width)]
