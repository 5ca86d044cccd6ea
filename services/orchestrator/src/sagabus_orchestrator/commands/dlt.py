"""`sagabus dlt list|show|redrive|discard`: what could not be handled, and what to do with it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

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
)
from sagabus_core.canonical import sha256_hex
from sagabus_core.errors import SagabusError
from sagabus_expressions import CelConditions
from sagabus_messages.topics import DEAD_LETTER_RETENTION_MS, RETENTION_MS
from sagabus_orchestrator import letters
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.config import OrchestratorSettings
from sagabus_orchestrator.letters import Deed, Letter, LetterFilter, LetterState
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.redrive import DeadLetters, LetterOutcome
from sagabus_orchestrator.signatures import SignatureSettings, verifier_of
from sagabus_runtime import load as load_settings
from sagabus_store import Database, InboxWindow

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Dead letters: look at them, redrive, discard.\n\n"
    "Works on the database itself, not through the API.",
)

REFUSED = 4
CONDITIONS = ("topic", "code", "kind", "saga", "tenant")
Letters = Annotated[
    list[str] | None, typer.Argument(help="Ids, or topic/partition/offset at the source.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="Instead of ids: topic=, code=, kind=, saga= or tenant=; all given must hold.",
    ),
]
Done = tuple[Letter, LetterOutcome | SagabusError]


@app.command("list")
def list_letters(
    where: Where = None,
    state: Annotated[str, typer.Option(help="open, redriven, discarded or any.")] = "open",
    limit: Limit = 100,
) -> None:
    """List dead letters by topic, partition and offset: the order in which to redrive them."""
    wanted = replace(_filter(where), state=_state(state))

    async def work(database: Database) -> list[Letter]:
        async with database.connection() as conn:
            return await letters.listed(conn, wanted, limit)

    found = with_database(work)
    current_output().table(
        {"dead_letters": [_document(letter) for letter in found]},
        ("topic", "place", "reason", "state", "first seen", "id"),
        [
            (
                letter.source.topic,
                f"{letter.source.partition}/{letter.source.offset}",
                letter.reason.code,
                letter.state,
                letter.first_seen,
                letter.id,
            )
            for letter in found
        ],
        empty="no such dead letter",
    )


@app.command()
def show(letter: Annotated[str, typer.Argument(help="Id, or topic/partition/offset.")]) -> None:
    """Show one dead letter: why it failed, what it says, what was done to it."""

    async def work(database: Database) -> tuple[Letter, list[dict[str, Any]]]:
        async with database.connection() as conn:
            found = await letters.find(conn, letters.letter_id_of(letter))
            return found, [_deed(dict(row)) for row in await letters.history(conn, found)]

    found, history = with_database(work)
    document = {**_document(found), **_content(found), "history": history}
    lines = [f"{name}: {value}" for name, value in document.items() if name != "history"]
    lines += [f"{done['at']} {done['kind']} by {done['actor']}: {done['reason']} "
              f"({done['effect']})" for done in history]  # fmt: skip
    current_output().tell(document, "\n".join(lines))


@app.command()
def redrive(
    reason: Why,
    ids: Letters = None,
    operation_id: OperationId = None,
    where: Where = None,
    edit: Annotated[
        Path | None,
        typer.Option(help="Send this body instead: of one command or start, under a new ce_id."),
    ] = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Handle letters again: results and starts at once, commands by sending them once more.

    One after another, in the order of their places; within a key an earlier letter first.
    """
    body = None if edit is None else _read(edit)
    _perform(ids, where, _make_deed("redrive", reason, operation_id, body), dry_run=dry_run)


@app.command()
def discard(
    reason: Why,
    ids: Letters = None,
    operation_id: OperationId = None,
    where: Where = None,
    *,
    dry_run: DryRun = False,
) -> None:
    """Close letters for good without handling them."""
    _perform(ids, where, _make_deed("discard", reason, operation_id, None), dry_run=dry_run)


def _make_deed(
    kind: Literal["redrive", "discard"], reason: str, operation_id: str | None, body: bytes | None
) -> Deed:
    request = kind if body is None else f"{kind}:{sha256_hex(body)}"
    return Deed(kind, chosen_operation_id(operation_id), actor(), reason, request, body)


def _perform(ids: list[str] | None, where: list[str] | None, deed: Deed, *, dry_run: bool) -> None:
    if bool(ids) == bool(where):
        raise UsageError("usage", "name letters by id, or say which by --where, not both")
    if deed.edited is not None and len(ids or ()) != 1:
        raise UsageError("usage", "--edit is for exactly one letter, named by its id")
    wanted, topics = _filter(where), current_connection().topics
    verifier = verifier_of(load_settings(SignatureSettings))

    async def work(database: Database) -> list[Done]:
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        async with database.connection() as conn:
            found = [await letters.find(conn, letters.letter_id_of(name)) for name in ids or ()]
            if where:
                found = await letters.listed(conn, wanted, MAX_DEEDS)
        desk = DeadLetters(database, topics, watcher, _window(), _mode(), verifier)
        found.sort(key=lambda letter: letter.place)
        return [(letter, await _one(desk, letter, deed, dry_run=dry_run)) for letter in found]

    _tell(deed, with_database(work), dry_run=dry_run)


async def _one(
    desk: DeadLetters, letter: Letter, deed: Deed, *, dry_run: bool
) -> LetterOutcome | SagabusError:
    """Return what became of one letter: one that is refused does not stop those of other keys."""
    try:
        return await desk.perform(letter.id, deed, dry_run=dry_run)
    except SagabusError as error:
        if error.retryable:
            raise
        return error


def _tell(deed: Deed, done: Sequence[Done], *, dry_run: bool) -> None:
    failed = [outcome for _, outcome in done if isinstance(outcome, SagabusError)]
    if len(done) == len(failed) == 1:
        raise failed[0]
    entries = [_entry(letter, outcome) for letter, outcome in done]
    would = "dry run: " if dry_run else ""
    lines = [f"{would}{entry['id']} {entry.get('effect') or entry['error']}" for entry in entries]
    lines += [f"operation id {deed.operation_id}"] if done else ["no letter matches"]
    lines += ["there may be more: do it again"] if len(done) == MAX_DEEDS else []
    current_output().tell(
        {"operation_id": deed.operation_id, "dry_run": dry_run, "dead_letters": entries},
        "\n".join(lines),
    )
    if failed:
        raise typer.Exit(REFUSED)


def _entry(letter: Letter, outcome: LetterOutcome | SagabusError) -> dict[str, Any]:
    told = {"id": letter.id, "place": "/".join(map(str, letter.place))}
    if isinstance(outcome, SagabusError):
        return {**told, "error": f"{outcome.detail} [{outcome.code}]", "code": outcome.code}
    return {**told, "effect": outcome.effect, "repeated": outcome.repeated}


def _document(letter: Letter) -> dict[str, Any]:
    return {
        "id": letter.id,
        "topic": letter.source.topic,
        "partition": letter.source.partition,
        "offset": letter.source.offset,
        "kind": letter.kind,
        "tenant": letter.tenant,
        "saga_id": letter.saga_id,
        "code": letter.reason.code,
        "detail": letter.reason.detail,
        "attempts": letter.attempts,
        "first_seen": letter.first_seen,
        "state": letter.state,
        "actor": letter.actor,
        "reason": letter.why,
        "changed_at": letter.changed_at.isoformat() if letter.changed_at else None,
    }


def _content(letter: Letter) -> dict[str, Any]:
    source = letter.source
    return {
        "key": _readable(source.key),
        "headers": {name: _readable(value) for name, value in source.headers},
        "body": _readable(source.value),
    }


def _deed(row: dict[str, Any]) -> dict[str, Any]:
    at, edited = row.pop("recorded_at"), row.pop("edited")
    return {**row, "at": at.isoformat(), "edited": _readable(edited)}


def _readable(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")


def _filter(where: Sequence[str] | None) -> LetterFilter:
    told = read_conditions(where, CONDITIONS)
    if "saga" in told:
        try:
            told["saga"] = str(uuid.UUID(told["saga"]))
        except ValueError as cause:
            raise UsageError("usage", "saga= takes a saga id") from cause
    return LetterFilter(**told)  # type: ignore[arg-type]  # the names are checked above


def _state(text: str) -> LetterState | None:
    match text:
        case "open" | "redriven" | "discarded":
            return text
        case "any":
            return None
        case _:
            raise UsageError("usage", "--state is open, redriven, discarded or any")


def _window() -> InboxWindow:
    """Return the window of the service, as its settings say."""
    default = OrchestratorSettings.model_fields["inbox_days"].default
    window = InboxWindow(int(os.environ.get("SAGABUS_INBOX_DAYS", default)))
    window.require_covers(RETENTION_MS, DEAD_LETTER_RETENTION_MS)
    return window


def _mode() -> RecoveryMode:
    """Return the mode of the service, as its settings say: what it keeps is kept here too."""
    named = os.environ.get("SAGABUS_RECOVERY_MODE", RecoveryMode.OFF)
    try:
        return RecoveryMode(named)
    except ValueError as cause:
        raise UsageError(
            "usage", f"SAGABUS_RECOVERY_MODE is {', '.join(RecoveryMode)}, not {named!r}"
        ) from cause


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
