"""The connection pool of a service and its unit of work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy
from asyncpg.transaction import Transaction

from sagabus_runtime import failpoints
from sagabus_store.errors import StoreError, StoreUnavailable, translate_commit, translated
from sagabus_store.queries import Queries

__all__ = ["QUEUE_PLANNER", "Connection", "Database", "DatabaseOptions", "Isolation", "now_ms"]

Connection: TypeAlias = "PoolConnectionProxy[asyncpg.Record] | asyncpg.Connection[asyncpg.Record]"
"""What a transaction gives: an asyncpg connection; its errors are translated at the block's end."""

Isolation: TypeAlias = Literal["read_committed", "repeatable_read", "serializable"]

QUEUE_PLANNER: Final[Mapping[str, str]] = {
    "enable_seqscan": "off",
    "enable_sort": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
"""Server settings for connections that drain a queue table: the statistics of a young table let
the planner settle on scans that are ten times slower once the table has filled."""

PING_TIMEOUT_S: Final = 1.0
_SQL = Queries("sagabus_store", "sql/database.sql")


@dataclass(frozen=True, slots=True)
class DatabaseOptions:
    """How a pool behaves; every wait of it has an end."""

    application_name: str
    pool_size: int = 8
    connect_timeout_ms: int = 5_000
    acquire_timeout_ms: int = 10_000
    statement_timeout_ms: int = 30_000
    lock_timeout_ms: int = 10_000
    idle_in_transaction_timeout_ms: int = 60_000
    statement_cache_size: int = 256
    schema: str = "public"
    server_settings: Mapping[str, str] = field(default_factory=dict)

    def all_server_settings(self) -> dict[str, str]:
        """Return what each connection sets at its start."""
        return {
            "application_name": self.application_name,
            "timezone": "UTC",
            "search_path": self.schema,
            "statement_timeout": str(self.statement_timeout_ms),
            "lock_timeout": str(self.lock_timeout_ms),
            "idle_in_transaction_session_timeout": str(self.idle_in_transaction_timeout_ms),
            # Compiling pays for long scans only; a wrong estimate would cost a batch 100 ms.
            "jit": "off",
            **self.server_settings,
        }


class Database:
    """A pool of connections to one database, and transactions on it.

    Connections are not reset between uses, which saves a round trip per transaction: change no
    session state (no SET without LOCAL, no session advisory lock, no LISTEN).
    bytea travels as bytes, json and jsonb as text: whoever owns a column encodes it once.
    """

    def __init__(self, dsn: str, options: DatabaseOptions) -> None:
        self._dsn = dsn
        self._options = options
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._borrowed = False

    @classmethod
    def over(
        cls, pool: asyncpg.Pool[asyncpg.Record], options: DatabaseOptions | None = None
    ) -> Database:
        """Return a database over a pool that is somebody else's: `close` leaves it open.

        Its connections must see the schema by their search_path, and have no codecs of their own
        for bytea; give them a `statement_timeout`, a `lock_timeout` and `jit = off`.
        """
        database = cls("", options or DatabaseOptions("borrowed"))
        database._pool, database._borrowed = pool, True
        return database

    async def open(self) -> None:
        """Connect; does nothing when connected. Raises `StoreUnavailable`."""
        if self._pool is not None:
            return
        options = self._options
        # On a timeout the driver asks the server to cancel, hence the server's own limit first.
        client_limit_s = options.statement_timeout_ms / 1000 + 5
        with translated():
            self._pool = await asyncpg.create_pool(
                self._dsn,
                min_size=1,
                max_size=options.pool_size,
                timeout=options.connect_timeout_ms / 1000,
                command_timeout=client_limit_s,
                statement_cache_size=options.statement_cache_size,
                max_inactive_connection_lifetime=300.0,
                server_settings=options.all_server_settings(),
                reset=_keep_session,
            )

    async def close(self) -> None:
        """Close every connection, waiting two seconds for those in use; safe to call twice."""
        if self._borrowed:
            return
        pool, self._pool = self._pool, None
        if pool is None:
            return
        try:
            async with asyncio.timeout(2):
                await pool.close()
        except TimeoutError:
            pool.terminate()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a connection outside of a transaction: each statement commits by itself.

        Raises `StoreUnavailable` and `StoreRejected` in place of the driver's errors. Do database
        work alone in the block: an OSError or TimeoutError from elsewhere would be taken for the
        database's.
        """
        if self._pool is None:
            raise StoreUnavailable("store_closed", "the database is not open")
        with translated():
            async with self._pool.acquire(timeout=self._options.acquire_timeout_ms / 1000) as conn:
                yield conn

    @asynccontextmanager
    async def transaction(
        self, *, isolation: Isolation = "read_committed"
    ) -> AsyncIterator[Connection]:
        """Run the block in one transaction: all of it is durable afterwards, or none of it.

        Any exception rolls back. Raises `StoreUnavailable` and `StoreRejected` in place of the
        driver's errors, `CommitUnknown` if the connection was lost while committing: then do the
        same work again, whose inbox claims tell what happened.
        """
        async with self.connection() as conn:
            transaction = conn.transaction(isolation=isolation)
            await transaction.start()
            try:
                yield conn
                await failpoints.reach("store.before-commit")
            except BaseException:
                await _roll_back(conn, transaction)
                raise
            await _commit(transaction)
            await failpoints.reach("store.after-commit")

    async def now_ms(self) -> int:
        """Return the database clock in epoch milliseconds."""
        async with self.connection() as conn:
            return await now_ms(conn)

    async def problem(self) -> str | None:
        """Return why the database cannot be used, or None: a readiness check."""
        try:
            async with asyncio.timeout(PING_TIMEOUT_S), self.connection() as conn:
                await conn.fetchval(_SQL["ping"])
        except TimeoutError:
            return "Postgres did not answer in time"
        except StoreError as error:
            return f"Postgres: {error.detail}"
        return None


async def now_ms(conn: Connection) -> int:
    """Return the database clock in epoch milliseconds; it moves within a transaction."""
    return int(await conn.fetchval(_SQL["now_ms"]))


async def _commit(transaction: Transaction) -> None:
    try:
        await failpoints.reach("store.commit")
        await transaction.commit()
    except Exception as error:
        found = translate_commit(error)
        if found is None:
            raise
        raise found from error


async def _roll_back(conn: Connection, transaction: Transaction) -> None:
    """Roll back without hiding the error that led here; a broken connection rolls back itself."""
    if conn.is_closed():
        return
    try:
        await transaction.rollback()
    except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
        conn.terminate()


async def _keep_session(_conn: asyncpg.Connection[asyncpg.Record]) -> None:
    """Send nothing: the driver itself rolls back an open transaction on release."""
