"""Databases for the tests of the store: the one place that knows the test kit's fixture."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import asyncpg
import pytest

from sagabus_store import SHARED, Connection, Database, DatabaseOptions, migrate


class PostgresServer(Protocol):
    def create_database(self, name: str, *, template: str = ...) -> str: ...
    def drop_database(self, name: str) -> None: ...


class Counted:
    """Counts the statements that a connection sends within a block."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    @asynccontextmanager
    async def on(self, conn: Connection) -> AsyncIterator[list[str]]:
        def note(query: Any) -> None:
            self.statements.append(query.query)

        conn.add_query_logger(note)
        try:
            yield self.statements
        finally:
            conn.remove_query_logger(note)


@pytest.fixture(scope="module")
def module_dsn(postgres: PostgresServer) -> Iterator[str]:
    """One database per module: emptying it is much quicker than making another."""
    name = f"store_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture(scope="module")
def other_module_dsn(postgres: PostgresServer) -> Iterator[str]:
    """A second one, for tests that need an empty database beside the shared tables."""
    name = f"store_{uuid.uuid4().hex[:12]}"
    yield postgres.create_database(name)
    postgres.drop_database(name)


@pytest.fixture
async def empty_dsn(other_module_dsn: str) -> str:
    """A database with nothing in it."""
    await empty(other_module_dsn)
    return other_module_dsn


@pytest.fixture
async def dsn(module_dsn: str) -> str:
    """A database with the shared tables and no rows."""
    await empty(module_dsn)
    await migrate(module_dsn, [SHARED])
    return module_dsn


async def empty(dsn: str) -> None:
    conn = await asyncpg.connect(dsn)
    await conn.execute('drop schema if exists public, "Odd name" cascade; create schema public')
    await conn.close()


@pytest.fixture
async def db(dsn: str) -> AsyncIterator[Database]:
    """An open pool on a new database with the shared tables."""
    db = Database(dsn, DatabaseOptions("store-tests", pool_size=4))
    await db.open()
    yield db
    await db.close()


@pytest.fixture
async def observer(dsn: str) -> AsyncIterator[Connection]:
    """A connection that looks on from outside of the pool."""
    conn = await asyncpg.connect(dsn)
    yield conn
    await conn.close()


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def as_role() -> Callable[[str, str, str], str]:
    """Turn a DSN into the same database's DSN of another role."""

    def change(dsn: str, role: str, password: str) -> str:
        parts = urlsplit(dsn)
        address = parts.netloc.rpartition("@")[2]
        return parts._replace(netloc=f"{role}:{password}@{address}").geturl()

    return change


@pytest.fixture
def until_waiting(observer: Connection) -> Callable[[], Awaitable[None]]:
    """Return once somebody waits for a lock; each look is a round trip, so nothing spins."""

    async def wait() -> None:
        async with asyncio.timeout(10):
            while not await observer.fetchval(
                "select count(*) from pg_stat_activity"
                " where wait_event_type = 'Lock' and datname = current_database()"
            ):
                pass

    return wait
