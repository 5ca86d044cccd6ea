"""Postgres of the local stack: its address, fresh databases, and power over the server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal
from urllib.parse import urlsplit

from sagabus_testkit.stack.control import Control
from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.secure_postgres import SecureDoor

__all__ = ["Postgres", "StopMode"]

StopMode = Literal["smart", "fast", "immediate"]
_STOP_SIGNALS: dict[StopMode, str | None] = {
    "smart": "SIGTERM",
    "fast": None,
    "immediate": "SIGQUIT",
}
_CONNECT_WITHIN_S = 15.0
_DATABASE_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Postgres:
    """A Postgres server and the data source name (DSN) of its superuser.

    Every method blocks; call them from asynchronous code through `asyncio.to_thread`. The address
    and the data stay the same over stop, kill and start. Errors: `StackError`.
    """

    dsn: str
    control: Control
    secure: SecureDoor | None = None

    @property
    def host(self) -> str:
        """The host of the server."""
        return urlsplit(self.dsn).hostname or "localhost"

    @property
    def port(self) -> int:
        """The TCP port of the server."""
        return urlsplit(self.dsn).port or 5432

    @property
    def pid(self) -> int | None:
        """The id of the postmaster while it runs as a process of this stack."""
        return self.control.pid

    def dsn_for(self, database: str, *, port: int | None = None) -> str:
        """Return the superuser's DSN of `database`, through another local `port` (a proxy)."""
        parts = urlsplit(self.dsn)
        login = f"{parts.netloc.rpartition('@')[0]}@" if "@" in parts.netloc else ""
        address = f"{self.host}:{self.port}" if port is None else f"127.0.0.1:{port}"
        return parts._replace(netloc=login + address, path=f"/{database}").geturl()

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Create an empty database, or a copy of `template` while nobody uses that; return its DSN.

        Raises `StackError`: `invalid_database_name`; `database_refused` when it exists or Postgres
        refuses for another reason.
        """
        self.ask(f"create database {_quoted(name)} template {_quoted(template)}")
        return self.dsn_for(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, its connections with it. Nothing happens if it does not exist."""
        self.ask(f"drop database if exists {_quoted(name)} with (force)")

    def start(self) -> None:
        """Start again after `stop` or `kill`; returns once it accepts connections."""
        self.control.start()

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop and wait: `smart` lets clients finish, `fast` ends them, `immediate` is a crash."""
        self.control.stop(_STOP_SIGNALS[mode])

    def kill(self) -> None:
        """Kill the postmaster and its children (SIGKILL): what a crash of the machine would do."""
        self.control.kill()

    def pause(self) -> None:
        """Freeze the postmaster: new connections hang; those that exist go on."""
        self.control.pause()

    def resume(self) -> None:
        """Thaw the postmaster."""
        self.control.resume()

    def ask(self, query: str, database: str | None = None) -> object:
        """Return the first value of a query, as the superuser.

        Raises `StackError` (`database_refused`) if Postgres refuses or is away.
        """
        return _in_thread(_first_value(self.dsn_for(database) if database else self.dsn, query))


def _quoted(name: str) -> str:
    if _DATABASE_NAME.fullmatch(name) is None:
        raise StackError(
            "invalid_database_name", f"database {name!r} must match {_DATABASE_NAME.pattern}"
        )
    return f'"{name}"'


async def _first_value(dsn: str, query: str) -> object:
    import asyncpg  # noqa: PLC0415 - a stack without database work need not load a driver

    try:
        connection = await asyncpg.connect(dsn, timeout=_CONNECT_WITHIN_S)
        try:
            return await connection.fetchval(query)
        finally:
            await connection.close()
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as cause:
        reason = str(cause) or type(cause).__name__
        raise StackError("database_refused", f"Postgres refused: {reason}") from cause


def _in_thread(work: Coroutine[object, object, object]) -> object:
    """Run a coroutine to its end although the caller's thread may already run an event loop."""
    with ThreadPoolExecutor(1, thread_name_prefix="stack-admin") as executor:
        return executor.submit(asyncio.run, work).result()
