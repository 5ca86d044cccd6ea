"""`sagabus bulk preview|start|show|refusals|list|pause|resume|cancel`: one thing on many sagas."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Final

import typer

from sagabus_cli import (
    OperationId,
    Output,
    Refused,
    UsageError,
    chosen_operation_id,
    current_output,
    options_of,
)
from sagabus_core.vocabulary import Control, SagaStatus
from sagabus_orchestrator.bulk import BulkFilter, BulkKind, BulkState
from sagabus_orchestrator.commands.office import (
    BulkVerb,
    Document,
    ManyOrder,
    Office,
    open_office,
)
from sagabus_orchestrator.commands.session import utc
from sagabus_orchestrator.commands.watching import watch_until

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="One operation on every saga that a filter names.")

_NAMES: Final = ("tenant", "workflow", "status", "key", "control", "participant", "step")
_SHOWN: Final = 100
_COLUMNS: Final = ("id", "what", "state", "done", "refused", "failed", "by", "reason")
Id = Annotated[str, typer.Argument(help="Id of the bulk operation.")]
Kind = Annotated[BulkKind, typer.Argument(help="What to do to each saga.")]
Where = Annotated[
    list[str],
    typer.Option(
        "--where",
        help="tenant=, workflow=, status= (may be given several times), key= (how it begins), "
        "control=, participant= or step= (of an open command); all given must hold.",
    ),
]
Most = Annotated[int, typer.Option("--max", min=1, help="Refuse if more sagas match.")]
Since = Annotated[
    datetime | None, typer.Option(help="Only sagas that began at or after this time (UTC).")
]
Until = Annotated[datetime | None, typer.Option(help="Only sagas that began before this (UTC).")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]
Watch = Annotated[
    bool,
    typer.Option(
        "--watch",
        help="Tell the progress on every change, until it has ended or is paused; with --json one "
        "document a line. Exit code 4 if any saga refused.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Preview:
    """The options of `preview`."""

    kind: Kind
    where: Where
    most: Most
    since: Since = None
    until: Until = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The options of `start`."""

    kind: Kind
    where: Where
    reason: Why
    most: Most
    since: Since = None
    until: Until = None
    operation_id: OperationId = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only count and show some, as `preview` does.")
    ] = False
    watch: Watch = False


@app.command()
@options_of(_Preview)
def preview(asked: _Preview) -> None:
    """Count the sagas that match now, to one more than --max, and name some."""
    with open_office() as office:
        _preview(office, ManyOrder(asked.kind, _filter(asked), asked.most, "a preview", "preview"))


@app.command()
@options_of(_Start)
def start(asked: _Start) -> None:
    """Begin an operation on all sagas that match and are not at their end.

    The orchestrator works it off in small batches.
    """
    operation_id = chosen_operation_id(asked.operation_id)
    order = ManyOrder(asked.kind, _filter(asked), asked.most, asked.reason, operation_id)
    with open_office() as office:
        if asked.dry_run:
            _preview(office, order)
            return
        _show(office, office.start_bulk(order)["id"], watch=asked.watch)


@app.command()
def show(bulk_id: Id, *, watch: Watch = False) -> None:
    """Show a bulk operation, its progress, and the first sagas that refused, with the reasons."""
    with open_office() as office:
        _show(office, _id(bulk_id), watch=watch)


@app.command()
def refusals(
    bulk_id: Id,
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Sagas of one page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None,
) -> None:
    """List the sagas that a bulk operation could not change, with the reasons."""
    known = _id(bulk_id)
    with open_office() as office:
        page = office.bulk_refusals(known, limit, cursor)
    rows = [(r["business_key"], r["code"], r["detail"], r["saga_id"]) for r in page["refusals"]]
    columns = ("business key", "code", "why", "id")
    current_output().table(page, columns, rows, "no saga refused")
    _tell_rest(page)


@app.command("list")
def list_bulks(
    limit: Annotated[int, typer.Option(min=1, max=500, help="Operations of one page.")] = 50,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None,
) -> None:
    """List bulk operations, newest first."""
    with open_office() as office:
        page = office.bulks(limit, cursor)
    rows = list(map(_row, page["bulk_operations"]))
    current_output().table(page, _COLUMNS, rows, "no bulk operation")
    _tell_rest(page)


@app.command()
def cancel(bulk_id: Id, reason: Why) -> None:
    """End a bulk operation; what it has done stays done."""
    _steer(bulk_id, "cancel", reason)


@app.command()
def pause(bulk_id: Id, reason: Why) -> None:
    """Hold a bulk operation behind its present batch."""
    _steer(bulk_id, "pause", reason)


@app.command()
def resume(bulk_id: Id, reason: Why) -> None:
    """Go on with a bulk operation that was paused."""
    _steer(bulk_id, "resume", reason)


def _steer(bulk_id: str, verb: BulkVerb, reason: str) -> None:
    known = _id(bulk_id)
    with open_office() as office:
        bulk = office.steer_bulk(known, verb, reason)
    current_output().tell(bulk, _text(bulk))


def _preview(office: Office, order: ManyOrder) -> None:
    found = office.preview_bulk(order)
    count = f"more than {order.most}" if found["too_large"] else str(found["matching"])
    named = f" ({', '.join(found['samples'])})" if found["samples"] else ""
    current_output().tell(found, f"sagas that match: {count}{named}; nothing was begun")


def _show(office: Office, bulk_id: str, *, watch: bool) -> None:
    def look() -> Document:
        bulk = office.bulk(bulk_id)
        # Only who has some is asked: nobody waits for a second answer while all goes well.
        some = bulk["refused"] or bulk["failed"]
        told = office.bulk_refusals(bulk_id, _SHOWN, None)["refusals"] if some else []
        return {**bulk, "refusals": told}

    if not watch:
        _draw(current_output(), look())
        return
    last = watch_until(look, _draw, lambda bulk: bulk["state"] != BulkState.RUNNING)
    if last["refusals"]:
        raise typer.Exit(Refused.exit_code)


def _filter(asked: _Preview | _Start) -> BulkFilter:
    told = _conditions(asked.where)
    one: Mapping[str, str] = {name: values[0] for name, values in told.items()}
    try:
        statuses = [SagaStatus(each) for each in told["status"]] if "status" in told else None
        control = Control(one["control"]) if "control" in one else None
    except ValueError as cause:
        raise UsageError("usage", str(cause)) from cause
    return BulkFilter(
        tenants=told.get("tenant"),
        workflow=one.get("workflow"),
        statuses=statuses,
        key_prefix=one.get("key"),
        control=control,
        since=utc(asked.since),
        until=utc(asked.until),
        participant=one.get("participant"),
        step=one.get("step"),
    )


def _conditions(where: Sequence[str]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for condition in where:
        name, separator, value = condition.partition("=")
        if name not in _NAMES or not separator or not value:
            raise UsageError("usage", f"{condition!r}: write {'=, '.join(_NAMES)}=")
        if name in told and name != "status":
            raise UsageError("usage", f"{name}= may be given once")
        told.setdefault(name, []).append(value)
    return told


def _id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as cause:
        raise UsageError("usage", f"{text!r} is no id of a bulk operation") from cause


def _draw(output: Output, bulk: Document) -> None:
    lines = [
        f"  {each['business_key']}: {each['detail']} [{each['code']}]" for each in bulk["refusals"]
    ]
    if beyond := bulk["refused"] + bulk["failed"] - len(lines):
        lines.append(f"  and {beyond} more: sagabus bulk refusals {bulk['id']}")
    output.tell(bulk, "\n".join([_text(bulk), *lines]))


def _text(bulk: Document) -> str:
    told = f"{bulk['state']}: {bulk['done']} done, {bulk['refused']} refused, "
    told += f"{bulk['failed']} failed"
    if bulk["overdue"]:
        told += "; nobody works on it: start an orchestrator"
    elif bulk["note"]:
        told += f"; waits: {bulk['note']}"
    meant = {name: value for name, value in bulk["filter"].items() if value is not None}
    sagas = ", ".join(f"{name} {_plain(value)}" for name, value in meant.items()) or "all"
    return f"{bulk['id']}  {bulk['kind']}\n  sagas: {sagas}\n  {told}"


def _plain(value: object) -> str:
    return "|".join(map(str, value)) if isinstance(value, list) else str(value)


def _row(bulk: Document) -> tuple[str, ...]:
    counts = (str(bulk["done"]), str(bulk["refused"]), str(bulk["failed"]))
    return (bulk["id"], bulk["kind"], bulk["state"], *counts, bulk["actor"], bulk["reason"])


def _tell_rest(page: Document) -> None:
    if page["next_cursor"]:
        current_output().note(f"more: --cursor {page['next_cursor']}")
