"""Migrations outside a transaction: one index, built while everybody goes on reading and writing.

A file whose first line is `-- no transaction` holds one statement, `create index concurrently NAME
on ...` or `drop index concurrently if exists NAME`. What a crash leaves behind, an invalid index,
is dropped and built again; what was finished and not recorded is only recorded.
"""

from __future__ import annotations

import re
from typing import Final

from sagabus_store.database import Connection
from sagabus_store.errors import MigrationError
from sagabus_store.queries import Queries

__all__ = ["build_online", "is_online"]

HEADER: Final = "-- no transaction"
_SQL = Queries("sagabus_store", "sql/migrations.sql")
_COMMENT = re.compile(r"--[^\n]*")
_CREATE = re.compile(r"create (?:unique )?index concurrently (?P<name>[a-z0-9_]+) on [^;]+;?", re.I)
_DROP = re.compile(r"drop index concurrently if exists [a-z0-9_]+;?", re.I)


def is_online(text: str) -> bool:
    """Say whether the file of a migration asks to run outside a transaction."""
    return text.split("\n", 1)[0].strip() == HEADER


async def build_online(conn: Connection, label: str, text: str) -> None:
    """Run the one statement of such a file; the same again after a crash ends the same way.

    Waits for the transactions that run now, at most the connection's lock timeout. Raises
    `MigrationError` (`migration_not_online`) before anything is done.
    """
    statement = " ".join(_COMMENT.sub("", text).split())
    create = _CREATE.fullmatch(statement)
    if create is None and _DROP.fullmatch(statement) is None:
        raise MigrationError(
            "migration_not_online",
            f"{label} has no transaction: it must be one `create index concurrently NAME on ...` "
            "or `drop index concurrently if exists NAME`",
        )
    if create is not None:
        state = await conn.fetchval(_SQL["index_state"], create["name"])
        if state == "valid":
            return
        if state == "invalid":
            # A build that was cut off: nobody reads it, every write pays for it.
            await conn.execute(f"drop index concurrently {create['name']}")
    await conn.execute(statement)
