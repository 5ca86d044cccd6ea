"""`sagabus parked list|show|redrive|discard`: records that Kafka refused, and their followers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import typer

from sagabus_cli import (
    MAX_DEEDS,
    DryRun,
    Limit,
    OperationId,
    UsageError,
    Why,
    actor,
    chosen_operation_id,
    current_connection,
    current_output,
    read_conditions,
    read_outboxes,
)
from sagabus_core.errors import SagabusError
from sagabus_relay.parking import Deed, ParkedKey, Parking, ParkingOutcome
from sagabus_store import SHARED, Database, DatabaseOptions, require_current

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Parked keys: look at them, redrive, discard.\n\n"
    "Works on the outboxes of all services themselves, not through the API, which sees one.",
)

T = TypeVar("T")
REFUSED = 4
CONDITIONS = ("topic", "code")
Outbox = Annotated[
    str | None,
    typer.Option("--outbox", help="Which of SAGABUS_OUTBOXES; needed where there are several."),
]
Rows = Annotated[
    list[int] | None, typer.Argument(help="Ids of parked records, as `list` shows them.")
]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", help="Instead of ids: topic= or code=; all given must hold."),
]


@dataclass(frozen=True, slots=True)
class _Key:
    """A parked key that was named, with the id under which it was."""

    id: int
    topic: str
    key: bytes | None


@app.command("list")
def list_keys(
    where: Where = None,
    outbox: Outbox = None,
    limit: Limit = 100,
) -> None:
    """List parked keys of all outboxes, the longest parked first: why, and how many rows wait."""
    chosen = _outboxes() if outbox is None else {outbox: _one(outbox)}
    wanted = read_conditions(where, CONDITIONS)
    found = [
        (name, key)
        for name, dsn in chosen.items()
        for key in _with_parking(dsn, lambda parking: parking.listed(limit, **wanted))
    ]
    current_output().table(
        {"parked": [_document(name, key) for name, key in found]},
        ("outbox", "id", "topic", "key", "rows", "reason", "parked"),
        [
            (
                name,
                str(key.first_id),
                key.topic,
                _text(key.key) or "",
                str(key.rows),
                key.reason,
                f"{key.parked_at:%Y-%m-%d %H:%M:%S}",
            )
            for name, key in found
        ],
        empty="no key is parked",
    )


@app.command()
def show(
    row: Annotated[int, typer.Argument(help="Id of a record.")], outbox: Outbox = None
) -> None:
    """Show one parked record: why it was refused and what it says."""
    found = _with_parking(_one(outbox), lambda parking: parking.find(row))
    document = {
        "id": found.id,
        "topic": found.topic,
        "key": _text(found.key),
        "reason": found.reason,
        "detail": found.detail,
        "bytes": len(found.value or b""),
        "headers": {name: _text(value) for name, value in found.headers},
        "body": _text(found.value),
    }
    text = "\n".join(f"{name}: {value}" for name, value in document.items())
    current_output().tell(document, text)


@app.command()
def redrive(
    reason: Why,
    rows: Rows = None,
    where: Where = None,
    operation_id: OperationId = None,
    outbox: Outbox = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Put all rows of parked keys back into the outbox, in their order, before later ones."""
    deed = _deed("redrive", reason, operation_id)
    _perform(_one(outbox), (rows, where), deed, dry_run=dry_run)


@app.command()
def discard(
    reason: Why,
    rows: Rows = None,
    where: Where = None,
    operation_id: OperationId = None,
    outbox: Outbox = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Give up the refused record of parked keys, and that one alone: its followers flow again."""
    deed = _deed("discard", reason, operation_id)
    _perform(_one(outbox), (rows, where), deed, dry_run=dry_run)


def _deed(kind: Literal["redrive", "discard"], reason: str, operation_id: str | None) -> Deed:
    return Deed(kind, chosen_operation_id(operation_id), actor(), reason)


def _perform(
    dsn: str, which: tuple[list[int] | None, list[str] | None], deed: Deed, *, dry_run: bool
) -> None:
    rows, where = which
    if bool(rows) == bool(where):
        raise UsageError("usage", "name parked records by id, or say which by --where, not both")
    conditions = read_conditions(where, CONDITIONS)

    async def work(parking: Parking) -> list[tuple[_Key, ParkingOutcome | SagabusError]]:
        if rows:
            named = {await parking.key_of(row, deed.operation_id): row for row in rows}
            keys = [_Key(row, *key) for key, row in named.items()]
        else:
            found = await parking.listed(MAX_DEEDS, **conditions)
            keys = [_Key(k.first_id, k.topic, k.key) for k in found]
        return [(key, await _try(parking, key, deed, dry_run=dry_run)) for key in keys]

    _tell(deed, _with_parking(dsn, work), dry_run=dry_run)


async def _try(
    parking: Parking, key: _Key, deed: Deed, *, dry_run: bool
) -> ParkingOutcome | SagabusError:
    """Return what became of one key: one that is refused does not stop the others."""
    try:
        return await parking.perform(key.topic, key.key, deed, dry_run=dry_run)
    except SagabusError as error:
        if error.retryable:
            raise
        return error


def _tell(
    deed: Deed, done: Sequence[tuple[_Key, ParkingOutcome | SagabusError]], *, dry_run: bool
) -> None:
    failed = [outcome for _, outcome in done if isinstance(outcome, SagabusError)]
    if len(done) == len(failed) == 1:
        raise failed[0]
    entries = [_entry(key, outcome) for key, outcome in done]
    would = "dry run: " if dry_run else ""
    lines = [f"{would}{entry['topic']} {entry['key']}: {entry['told']}" for entry in entries]
    lines += [f"operation id {deed.operation_id}"] if done else ["no such key is parked"]
    lines += ["there may be more: do it again"] if len(done) == MAX_DEEDS else []
    current_output().tell(
        {"operation_id": deed.operation_id, "dry_run": dry_run, "keys": entries}, "\n".join(lines)
    )
    if failed:
        raise typer.Exit(REFUSED)


def _entry(key: _Key, outcome: ParkingOutcome | SagabusError) -> dict[str, Any]:
    told: dict[str, Any] = {"id": key.id, "topic": key.topic, "key": _text(key.key)}
    if isinstance(outcome, SagabusError):
        return {**told, "told": f"{outcome.detail} [{outcome.code}]", "code": outcome.code}
    gone = "" if outcome.discarded is None else f"record {outcome.discarded} discarded, "
    return {
        **told,
        "told": f"{gone}{outcome.put_back} put back",
        "put_back": outcome.put_back,
        "discarded": outcome.discarded,
        "repeated": outcome.repeated,
    }


def _document(outbox: str, key: ParkedKey) -> dict[str, Any]:
    return {
        "outbox": outbox,
        "id": key.first_id,
        "topic": key.topic,
        "key": _text(key.key),
        "rows": key.rows,
        "reason": key.reason,
        "detail": key.detail,
        "oldest_at": key.oldest_at.isoformat(),
        "parked_at": key.parked_at.isoformat(),
    }


def _outboxes() -> dict[str, str]:
    """Return the DSN of every outbox; without SAGABUS_OUTBOXES the orchestrator's alone."""
    named = read_outboxes()
    if named is None:
        current_output().note(
            "only the orchestrator's outbox is looked at: name all by SAGABUS_OUTBOXES, as the "
            "relay knows them"
        )
        return {"orchestrator": current_connection().database}
    return named


def _one(name: str | None) -> str:
    known = _outboxes()
    if name is None and len(known) == 1:
        return next(iter(known.values()))
    if name not in known:
        raise UsageError("usage", f"name one by --outbox: {', '.join(sorted(known))}")
    return known[name]


def _with_parking(dsn: str, work: Callable[[Parking], Awaitable[T]]) -> T:
    return asyncio.run(_run(dsn, work))


async def _run(dsn: str, work: Callable[[Parking], Awaitable[T]]) -> T:
    database = Database(dsn, DatabaseOptions(application_name="sagabus-cli", pool_size=2))
    try:
        await database.open()
        async with database.connection() as connection:
            await require_current(connection, [SHARED])
        return await work(Parking(database))
    finally:
        await database.close()


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
