"""The bell of an outbox: a relay that has nothing to do sleeps until somebody adds rows.

See `outbox_ring` in schema.sql for why no row is missed between the last look and the sleep.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import asyncpg

from sagabus_store.errors import translated
from sagabus_store.queries import Queries

__all__ = ["OutboxBell"]

CHANNEL: Final = "sagabus_outbox"
TIMEOUT_S: Final = 1.0
"""Of each step: while a bell is sought or left, nobody looks at the outbox."""
_SQL = Queries("sagabus_store", "sql/outbox.sql")


class OutboxBell:
    """Listens to one outbox, on a connection of its own.

    LISTEN and the lock belong to a session: give the address of the server, or of a pooler that
    keeps sessions. For one listener; a second one is told that the bell is taken.
    """

    def __init__(self, dsn: str, application_name: str, schema: str = "public") -> None:
        self._dsn = dsn
        self._settings = {
            "application_name": application_name,
            "search_path": schema,
            # Unread notices fill a queue that the whole server shares: who stopped reading goes.
            "tcp_user_timeout": "30000",
            "tcp_keepalives_idle": "10",
        }
        self._conn: asyncpg.Connection[asyncpg.Record] | None = None
        self._outbox = 0
        self._rung = asyncio.Event()
        self._rings = 0
        self._held = False

    @property
    def held(self) -> bool:
        """Whether every commit that adds rows rings here, as far as this side knows."""
        return self._held and self._conn is not None and not self._conn.is_closed()

    @property
    def rung(self) -> int:
        """How many commits have rung so far: each waited for the others of its server that did."""
        return self._rings

    def clear(self) -> None:
        """Forget that it rang; call it before a look, never after."""
        self._rung.clear()

    async def hold(self) -> bool:
        """Ask to be rung for; returns whether it is so: look once more before you sleep.

        False where the outbox has no bell, and while a writer or another listener has it. Raises
        `StoreUnavailable`.
        """
        if self.held:
            return True
        with translated():
            conn = await self._connected()
            self._held = conn is not None and bool(
                await conn.fetchval(_SQL["hold_bell"], self._outbox)
            )
        return self._held

    async def let_go(self) -> None:
        """Tell writers that they need not ring; does nothing if they do not."""
        if self._held and self._conn is not None:
            self._held = False
            with translated():
                await self._conn.execute(_SQL["let_go_of_bell"], self._outbox)

    async def wait(self, ms: float) -> bool:
        """Return True once it has rung since `clear`, or False after `ms`."""
        try:
            async with asyncio.timeout(ms / 1000):
                await self._rung.wait()
        except TimeoutError:
            return False
        return True

    def wake(self) -> None:
        """End the present wait, as if it had rung."""
        self._rung.set()

    async def close(self) -> None:
        """Disconnect, which lets go; safe to call twice. Never raises."""
        conn, self._conn, self._held = self._conn, None, False
        if conn is not None:
            with suppress(asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError):
                await conn.close(timeout=TIMEOUT_S)

    async def _connected(self) -> asyncpg.Connection[asyncpg.Record] | None:
        """Return the session in which we listen; None where nobody would ring."""
        if self._conn is None or self._conn.is_closed():
            await self.close()
            self._conn = await asyncpg.connect(
                self._dsn,
                timeout=TIMEOUT_S,
                command_timeout=TIMEOUT_S,
                server_settings=self._settings,
            )
            self._conn.add_termination_listener(lambda _: self.wake())
            await self._conn.add_listener(CHANNEL, self._hear)
        # Asked every time: the migration that brings the bell may come while we run.
        found = await self._conn.fetchrow(_SQL["outbox_bell"])
        self._outbox = int(found["outbox"]) if found and found["rings"] else 0
        return self._conn if self._outbox else None

    def _hear(self, _conn: object, _pid: int, _channel: str, payload: object) -> None:
        if payload == str(self._outbox):
            self._rings += 1
            self._rung.set()
