"""Numbered, forward-only migrations, one version line per component.

A component is a folder of a package with files `0001_name.sql`, `0002_...`. Each file runs in its
own transaction with a short lock timeout, so that it gives way to running old code instead of
stopping it; an index on a table that may be big is built outside one (`online`). A released file
is never edited: its checksum is recorded.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Final

import asyncpg

from sagabus_runtime import get_logger
from sagabus_store.database import Connection
from sagabus_store.errors import MigrationError, translated
from sagabus_store.online import build_online, is_online
from sagabus_store.queries import Queries

__all__ = [
    "SHARED",
    "Component",
    "Migration",
    "describe_schema",
    "migrate",
    "quoted",
    "require_current",
]

_FILE = re.compile(r"(?P<version>\d{4})_(?P<name>[a-z0-9_]+)\.sql")
_SQL = Queries("sagabus_store", "sql/migrations.sql", "sql/catalogue.sql")

EVENT_APPLIED: Final = "migrations.applied"
LOCK_TIMEOUT_MS: Final = 3_000
MIGRATORS_WAIT_MS: Final = 120_000
MIGRATORS_STEP_S: Final = 0.1
ONLINE_WAIT_MS: Final = 120_000
"""How long a build outside a transaction waits for the transactions that run; it stops nobody."""


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of a component; `checksum` is the SHA-256 of its text with unix line ends."""

    component: str
    version: int
    name: str
    text: str

    @property
    def checksum(self) -> str:
        """Return the digest that is recorded when this step is applied."""
        return hashlib.sha256(self.text.replace("\r\n", "\n").encode()).hexdigest()

    @property
    def label(self) -> str:
        """Return the name for people."""
        return f"{self.component}/{self.version:04d}_{self.name}"


@dataclass(frozen=True)
class Component:
    """A line of migrations: the shared tables, or the tables of one service."""

    name: str
    package: str
    directory: str = "sql/migrations"

    @cached_property
    def migrations(self) -> tuple[Migration, ...]:
        """The steps in order; raises `MigrationError` for a gap or a number used twice."""
        found: list[Migration] = []
        for entry in files(self.package).joinpath(self.directory).iterdir():
            match = _FILE.fullmatch(entry.name)
            if match:
                text = entry.read_text("utf-8")
                found.append(Migration(self.name, int(match["version"]), match["name"], text))
        found.sort(key=lambda step: step.version)
        if [step.version for step in found] != list(range(1, len(found) + 1)):
            raise MigrationError(
                "migrations_not_consecutive",
                f"{self.package}/{self.directory} must number its files 0001, 0002, ...",
            )
        return tuple(found)

    def read(self, name: str) -> str:
        """Return another file of the folder, for example grants.sql."""
        return files(self.package).joinpath(self.directory, name).read_text("utf-8")


SHARED: Final = Component("shared", "sagabus_store")
"""Inbox, outbox and parked outbox: the same in every service's database."""


async def migrate(dsn: str, components: Sequence[Component], schema: str = "public") -> list[str]:
    """Bring `schema` to the newest version of every component; returns the labels applied.

    Run by the owner role. A second call applies nothing; a second migrator waits for the first.
    Raises `MigrationError` for an edited or lost step, `StoreUnavailable` when a lock was not to
    be had in time (run it again).
    """
    with translated():
        conn = await asyncpg.connect(
            dsn, timeout=10, server_settings={"application_name": "sagabus-migrate"}
        )
        try:
            await _lock_out_others(conn)
            await conn.execute(f"set lock_timeout = {LOCK_TIMEOUT_MS}")
            await _use_schema(conn, schema)
            await conn.execute(_SQL["create_version_table"])
            return [
                step.label for component in components for step in await _apply(conn, component)
            ]
        finally:
            await conn.close()


async def require_current(conn: Connection, components: Sequence[Component]) -> None:
    """Check at a service's start that every step it knows is applied, unedited.

    Newer steps than it knows are fine: migrations only ever expand under running code. Raises
    `MigrationError` (`migrations_pending`, `migration_edited`).
    """
    for component in components:
        pending = await _pending(conn, component)
        if pending:
            raise MigrationError(
                "migrations_pending",
                f"{', '.join(step.label for step in pending)} not applied: run the migrations",
            )


async def describe_schema(conn: Connection) -> list[str]:
    """Return every object of the current schema as sorted lines: equal schemas, equal lines."""
    rows = await conn.fetch(_SQL["describe_schema"])
    return [str(row["line"]) for row in rows]


async def quoted(conn: Connection, identifier: str) -> str:
    """Return a name as an SQL identifier, for statements that take no parameters."""
    return str(await conn.fetchval(_SQL["quote_identifier"], identifier))


async def _use_schema(conn: Connection, schema: str) -> None:
    name = await quoted(conn, schema)
    if not await conn.fetchval(_SQL["has_schema"], schema):
        await conn.execute(f"create schema {name}")
    # pg_temp last: a temporary table must not stand in for a real one inside our functions.
    await conn.execute(f"set search_path = {name}, pg_temp")


async def _apply(conn: Connection, component: Component) -> list[Migration]:
    pending = await _pending(conn, component)
    for step in pending:
        if is_online(step.text):
            await conn.execute(f"set lock_timeout = {ONLINE_WAIT_MS}")
            await build_online(conn, step.label, step.text)
            await conn.execute(f"set lock_timeout = {LOCK_TIMEOUT_MS}")
            await _record(conn, step)
        else:
            async with conn.transaction():
                await conn.execute(step.text)
                await _record(conn, step)
        get_logger().info(EVENT_APPLIED, migration=step.label)
    return pending


async def _record(conn: Connection, step: Migration) -> None:
    await conn.execute(
        _SQL["record_migration"], step.component, step.version, step.name, step.checksum
    )


async def _lock_out_others(conn: Connection) -> None:
    async with asyncio.timeout(MIGRATORS_WAIT_MS / 1000):
        while not await conn.fetchval(_SQL["try_lock_migrations"]):  # noqa: ASYNC110 - another process holds it
            await asyncio.sleep(MIGRATORS_STEP_S)


async def _pending(conn: Connection, component: Component) -> list[Migration]:
    applied: dict[int, str] = {}
    if await conn.fetchval(_SQL["has_version_table"]):
        rows = await conn.fetch(_SQL["applied_migrations"])
        applied = {
            row["version"]: row["checksum"] for row in rows if row["component"] == component.name
        }
    known = component.migrations
    for step in known[: len(applied)]:
        if step.version not in applied:
            raise MigrationError("migration_lost", f"{step.label} was skipped in this database")
        if applied[step.version] != step.checksum:
            raise MigrationError(
                "migration_edited",
                f"{step.label} was edited after it was applied: restore it and add a new one",
            )
    return list(known[len(applied) :])
