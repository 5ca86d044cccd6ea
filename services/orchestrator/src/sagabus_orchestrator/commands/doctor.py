"""`sagabus doctor` says whether this deployment is as it must be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Final

import typer

from sagabus_cli import (
    FailedOutcome,
    NotReachable,
    UsageError,
    current_connection,
    current_output,
    read_outboxes,
)
from sagabus_expressions import CelConditions
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.groups import Groups, chosen_readers
from sagabus_orchestrator.doctor import (
    Check,
    Level,
    examine_broker,
    examine_database,
    examine_outbox,
    worst,
)
from sagabus_orchestrator.errors import OrphanedInstances
from sagabus_orchestrator.readers import Readers
from sagabus_store import Database, DatabaseOptions, StoreError

__all__ = ["app"]

app = typer.Typer()
_MARKS: Final = {Level.OK: "ok", Level.WARN: "WARN", Level.FAIL: "FAIL"}
_ORCHESTRATOR: Final = "orchestrator"


@app.command()
def doctor(
    inbox_days: Annotated[
        int, typer.Option(min=1, envvar="SAGABUS_INBOX_DAYS", help="Inbox window of the services.")
    ] = 30,
    role: Annotated[
        list[str] | None,
        typer.Option(help="Run-time role of the orchestrator to check; none: the connected one."),
    ] = None,
    database: Annotated[
        list[str] | None,
        typer.Option(help="NAME=DSN of another service's database; also SAGABUS_OUTBOXES (JSON)."),
    ] = None,
    group: Groups = None,
) -> None:
    """Check topics, retention, migrations, roles, clocks, outboxes, groups and stuck sagas.

    Exit code 1 if a check failed; warnings alone do not fail. Asks every database
    and Kafka itself, not through the API, so that it works when nothing else does.
    """
    readers = chosen_readers(group)
    checks = asyncio.run(_examine(_others(database or []), role or [], inbox_days, readers))
    checks += _unseen(database)
    level = worst(checks)
    current_output().table(
        {
            "level": level.value,
            "checks": [
                {"name": c.name, "level": c.level.value, "detail": c.detail, "mend": c.mend}
                for c in checks
            ],
        },
        ("check", "", "what was seen", "what to do"),
        [
            (c.name, _MARKS[c.level], c.detail, c.mend if c.level is not Level.OK else "")
            for c in checks
        ],
    )
    if level is Level.FAIL:
        raise typer.Exit(FailedOutcome.exit_code)


def _others(named: list[str]) -> dict[str, str]:
    found = read_outboxes() or {}
    for each in named:
        name, separator, dsn = each.partition("=")
        if not separator:
            raise UsageError("invalid_address", f"--database {each!r} is not NAME=DSN")
        found[name] = dsn
    return {name: dsn for name, dsn in found.items() if name != _ORCHESTRATOR}


def _unseen(named: list[str] | None) -> list[Check]:
    """Say that the databases of other services, which nobody has named, were not looked at."""
    if named or read_outboxes() is not None:
        return []
    detail = "only the orchestrator's: parked keys and old records elsewhere are not seen"
    mend = "set SAGABUS_OUTBOXES as the relay has it, or name databases by --database"
    return [Check("databases", Level.WARN, detail, mend)]


async def _examine(
    others: Mapping[str, str], roles: Sequence[str], inbox_days: int, readers: Readers
) -> list[Check]:
    connection = current_connection()
    checks, waiting, participants = await _examine_own(connection.database, roles)
    for name, dsn in others.items():
        found, topics = await _examine_other(name, dsn)
        checks += found
        waiting |= topics
    try:
        bus = connection.bus
    except NotReachable as error:
        return [*checks, Check("kafka", Level.FAIL, error.detail, "name it by --kafka")]
    return [
        *checks,
        *await examine_broker(bus, readers, participants, waiting, inbox_days),
    ]


async def _examine_own(
    dsn: str, roles: Sequence[str]
) -> tuple[list[Check], set[str], frozenset[str]]:
    """Check the orchestrator's database; returns also what Kafka is asked about."""
    database = _open(dsn)
    try:
        await database.open()
        checks, waiting = await examine_database(database, COMPONENTS, roles)
        if worst(checks[:1]) is Level.FAIL:
            return checks, waiting, frozenset()
        watcher = CatalogWatcher(database, CelConditions())
        with suppress(OrphanedInstances):  # the check of the definitions says so
            await watcher.refresh()
    except StoreError as error:
        return [_unreachable(_ORCHESTRATOR, error)], set(), frozenset()
    else:
        return checks, waiting, watcher.current.participants
    finally:
        await database.close()


async def _examine_other(name: str, dsn: str) -> tuple[list[Check], set[str]]:
    database = _open(dsn)
    try:
        await database.open()
        async with database.connection() as conn:
            return await examine_outbox(conn, name)
    except StoreError as error:
        return [_unreachable(name, error)], set()
    finally:
        await database.close()


def _unreachable(name: str, error: StoreError) -> Check:
    return Check("postgres", Level.FAIL, f"{name}: {error.detail}", "see its DSN, and the server")


def _open(dsn: str) -> Database:
    return Database(dsn, DatabaseOptions(application_name="sagabus-doctor", pool_size=2))
