"""`sagabus dlt list|show|redrive|discard`: what could not be handled, and what to do with it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from sagabus_cli import (
    MAX_DEEDS,
    DryRun,
    Limit,
    OperationId,
    UsageError,
    Why,
    chosen_operation_id,
    current_output,
    read_conditions,
)
from sagabus_core.errors import SagabusError
from sagabus_orchestrator.commands.office import Document, LetterOrder, open_office
from sagabus_orchestrator.letters import LetterFilter, LetterState

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Dead letters: look at them, redrive, discard.")

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


@app.command("list")
def list_letters(
    where: Where = None,
    state: Annotated[str, typer.Option(help="open, redriven, discarded or any.")] = "open",
    limit: Limit = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None,
) -> None:
    """List dead letters by topic, partition and offset: the order in which to redrive them."""
    wanted = replace(_filter(where), state=_state(state))
    with open_office() as office:
        page = office.letters(wanted, limit, cursor)
    output = current_output()
    output.table(
        page,
        ("topic", "place", "reason", "state", "first seen", "id"),
        [_row(letter) for letter in page["dead_letters"]],
        empty="no such dead letter",
    )
    if page["next_cursor"]:
        output.note(f"more: --cursor {page['next_cursor']}")


@app.command()
def show(letter: Annotated[str, typer.Argument(help="Id, or topic/partition/offset.")]) -> None:
    """Show one dead letter: why it failed, what it says, what was done to it."""
    with open_office() as office:
        found = office.letter(letter)
    lines = [f"{name}: {_shown(value)}" for name, value in found.items() if name != "history"]
    lines += [f"{done['at']} {done['kind']} by {done['actor']}: {done['reason']} "
              f"({done['effect']})" for done in found["history"]]  # fmt: skip
    current_output().tell(found, "\n".join(lines))


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
    wanted = _chosen(ids, where)
    if body is not None and len(ids or ()) != 1:
        raise UsageError("usage", "--edit is for exactly one letter, named by its id")
    chosen = chosen_operation_id(operation_id)
    _perform(LetterOrder("redrive", ids or (), wanted, reason, chosen, body, dry_run=dry_run))


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
    wanted, chosen = _chosen(ids, where), chosen_operation_id(operation_id)
    _perform(LetterOrder("discard", ids or (), wanted, reason, chosen, dry_run=dry_run))


def _chosen(ids: list[str] | None, where: list[str] | None) -> LetterFilter | None:
    if bool(ids) == bool(where):
        raise UsageError("usage", "name letters by id, or say which by --where, not both")
    return _filter(where) if where else None


def _perform(order: LetterOrder) -> None:
    with open_office() as office:
        done = office.handle(order)
    failed = [outcome for _, outcome in done if isinstance(outcome, SagabusError)]
    if len(done) == len(failed) == 1:
        raise failed[0]
    entries = [_entry(letter, outcome) for letter, outcome in done]
    would = "dry run: " if order.dry_run else ""
    lines = [f"{would}{entry['id']} {entry.get('effect') or entry['error']}" for entry in entries]
    lines += [f"operation id {order.operation_id}"] if done else ["no letter matches"]
    lines += ["there may be more: do it again"] if len(done) == MAX_DEEDS else []
    current_output().tell(
        {"operation_id": order.operation_id, "dry_run": order.dry_run, "dead_letters": entries},
        "\n".join(lines),
    )
    if failed:
        raise typer.Exit(REFUSED)


def _entry(letter: Document, outcome: Document | SagabusError) -> Document:
    told = {"id": letter["id"], "place": f"{letter['topic']}/{_place(letter)}"}
    if isinstance(outcome, SagabusError):
        return {**told, "error": f"{outcome.detail} [{outcome.code}]", "code": outcome.code}
    return {**told, "effect": outcome["effect"], "repeated": outcome["repeated"]}


def _row(letter: Document) -> tuple[str, ...]:
    told = (letter["code"], letter["state"], letter["first_seen"], letter["id"])
    return (letter["topic"], _place(letter), *told)


def _place(letter: Document) -> str:
    return f"{letter['partition']}/{letter['offset']}"


def _shown(value: object) -> object:
    """Return a value for people: headers stand one below the other."""
    if not isinstance(value, list):
        return "-" if value is None else value
    return "".join(f"\n  {name}: {content}" for name, content in value)


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


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
