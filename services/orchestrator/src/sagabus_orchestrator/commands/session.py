"""What every command needs: the orchestrator's database, opened for one piece of work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final, TypeVar

import asyncpg

from sagabus_cli import NotReachable, actor, current_connection
from sagabus_orchestrator.app import COMPONENTS
from sagabus_store import Database, DatabaseOptions, StoreUnavailable, require_current

__all__ = ["actor", "utc", "with_database"]

T = TypeVar("T")
_CONNECTIONS: Final = 2


def utc(at: datetime | None) -> datetime | None:
    """Return an instant as somebody typed it: UTC unless they said otherwise."""
    return at.replace(tzinfo=UTC) if at is not None and at.tzinfo is None else at


def with_database(work: Callable[[Database], Awaitable[T]]) -> T:
    """Run `work` on the orchestrator's database and return what it returned.

    Raises `StoreUnavailable` if Postgres is away, `NotReachable` (`no_database`) if it has no such
    database, `MigrationError` if that is not the orchestrator's or not up to date.
    """
    return asyncio.run(_run(work, current_connection().database))


async def _run(work: Callable[[Database], Awaitable[T]], dsn: str) -> T:
    options = DatabaseOptions(application_name="sagabus-cli", pool_size=_CONNECTIONS)
    database = Database(dsn, options)
    try:
        await _open(database)
        async with database.connection() as conn:
            await require_current(conn, COMPONENTS)
        return await work(database)
    finally:
        await database.close()


async def _open(database: Database) -> None:
    try:
        await database.open()
    except StoreUnavailable as error:
        if not isinstance(error.__cause__, asyncpg.InvalidCatalogNameError):
            raise
        raise NotReachable(
            "no_database",
            "the orchestrator's database does not exist yet: run `sagabus services` (or your "
            "orchestrator) once, or correct --postgres or SAGABUS_POSTGRES",
        ) from error
