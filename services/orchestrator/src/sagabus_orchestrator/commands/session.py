"""What every command needs: the orchestrator's database, opened for one piece of work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sagabus_cli import current_connection
from sagabus_orchestrator.app import COMPONENTS
from sagabus_store import Database, DatabaseOptions, require_current

__all__ = ["with_database"]

T = TypeVar("T")
_CONNECTIONS: Final = 2


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` on the orchestrator's database and return what it returned.

    Raises `StoreUnavailable` if Postgres is away, `MigrationError` if the database is not the
    orchestrator's or not up to date.
    """
    return asyncio.run(_run(work, current_connection().database))


async def _run(work: Callable[[Database], Awaitable[T]], dsn: str) -> T:
    options = DatabaseOptions(application_name="sagabus-cli", pool_size=_CONNECTIONS)
    database = Database(dsn, options)
    try:
        await database.open()
        async with database.connection() as conn:
            await require_current(conn, COMPONENTS)
        return await work(database)
    finally:
        await database.close()
