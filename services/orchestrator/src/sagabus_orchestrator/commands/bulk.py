"""`sagabus bulk start|show|list|cancel|pause|resume`: one operation on many sagas."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar

import typer

from sagabus_cli import Refused, UsageError, current_output
from sagabus_core.vocabulary import Control, SagaStatus
from sagabus_expressions import CelConditions
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.bulk import Bulk, BulkFilter, BulkKind, BulkOrder, Bulks, BulkState
from sagabus_orchestrator.bulk.values import Refusal
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.commands.options import takes
from sagabus_orchestrator.commands.session import actor, utc, with_database
from sagabus_runtime.telemetry import traceparent_here
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="One operation on every saga that a filter names.\n\n"
    "Works on the database itself, not through the API.",
)
T = TypeVar("T")

_NAMES: Final = ("tenant", "workflow", "status", "key", "control", "participant", "step")
_WATCH_S: Final = 1.0
_SHOWN: Final = 100
Id = Annotated[str, typer.Argument(help="Id of the bulk operation.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]
Watch = Annotated[bool, typer.Option("--watch", help="Tell the progress until it has ended.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Start:
    """The options of `start`."""

    kind: Annotated[BulkKind, typer.Argument(help="What to do to each saga.")]
    where: Annotated[
        list[str],
        typer.Option(
            "--where",
            help="tenant=, workflow=, status= (may be given several times), key= (how it begins), "
            "control=, participant= or step= (of an open command); all given must hold.",
        ),
    ]
    reason: Why
    most: Annotated[int, typer.Option("--max", min=1, help="Refuse if more sagas match.")]
    since: Annotated[
        datetime | None, typer.Option(help="Only sagas that began at or after this time (UTC).")
    ] = None
    until: Annotated[
        datetime | None, typer.Option(help="Only sagas that began before this time (UTC).")
    ] = None
    operation_id: Annotated[
        str | None, typer.Option(help="Your id: the same one again starts nothing more.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count and show some.")] = False
    watch: Watch = False


@app.command()
@takes(_Start)
def start(asked: _Start) -> None:
    """Begin an operation on all sagas that match and are not at their end.

    The orchestrator works it off in small batches. With --watch: exit code 4 if any saga refused.
    """
    order = BulkOrder(
        kind=asked.kind,
        wanted=_filter(asked),
        most=asked.most,
        actor=actor(),
        reason=asked.reason,
        operation_id=asked.operation_id or str(uuid.uuid4()),
    )
    if asked.dry_run:
        count, samples = _with_bulks(lambda bulks: bulks.count(order))
        named = [found.business_key for found in samples]
        more = f"more than {order.most}" if count > order.most else str(count)
        current_output().tell(
            {"dry_run": True, "kind": order.kind, "matching": count, "max": order.most,
             "samples": named},
            f"dry run: {more} sagas match, such as {', '.join(named) or 'none'}",
        )  # fmt: skip
        return
    begun = _with_bulks(lambda bulks: bulks.start(order, traceparent_here()))
    _show(begun.id, watch=asked.watch)


@app.command()
def show(bulk_id: Id, *, watch: Watch = False) -> None:
    """Show a bulk operation, its progress, and the sagas that refused, with the reasons."""
    _show(bulk_id, watch=watch)


@app.command("list")
def list_bulks(limit: Annotated[int, typer.Option(min=1, max=1_000)] = 50) -> None:
    """List bulk operations, newest first."""
    found = _with_bulks(lambda bulks: bulks.list(limit))
    current_output().table(
        {"bulks": [_document(bulk) for bulk in found]},
        ("id", "what", "state", "done", "refused", "failed", "by", "reason"),
        [_row(bulk) for bulk in found],
    )


@app.command()
def cancel(bulk_id: Id, reason: Why) -> None:
    """End a bulk operation; what it has done stays done."""
    _steer(bulk_id, BulkState.CANCELLED, reason)


@app.command()
def pause(bulk_id: Id, reason: Why) -> None:
    """Hold a bulk operation behind its present batch."""
    _steer(bulk_id, BulkState.PAUSED, reason)


@app.command()
def resume(bulk_id: Id, reason: Why) -> None:
    """Go on with a bulk operation that was paused."""
    _steer(bulk_id, BulkState.RUNNING, reason)


def _steer(bulk_id: str, state: BulkState, reason: str) -> None:
    by, known = By(actor(), reason), _id(bulk_id)
    _tell(_with_bulks(lambda bulks: bulks.steer(known, state, by)), [])


def _show(bulk_id: str, *, watch: bool) -> None:
    known = _id(bulk_id)

    async def work(bulks: Bulks) -> tuple[Bulk, list[Refusal]]:
        bulk = await bulks.get(known)
        while watch and bulk.state is BulkState.RUNNING:
            current_output().note(_progress(bulk))
            await asyncio.sleep(_WATCH_S)
            bulk = await bulks.get(known)
        return bulk, await bulks.refusals(known, _SHOWN)

    bulk, refusals = _with_bulks(work)
    _tell(bulk, refusals)
    if watch and refusals:
        raise typer.Exit(Refused.exit_code)


def _with_bulks(work: Callable[[Bulks], Awaitable[T]]) -> T:
    async def run(database: Database) -> T:
        watcher = CatalogWatcher(database, CelConditions())
        await watcher.refresh()
        return await work(Bulks(database, watcher))

    return with_database(run)


def _filter(asked: _Start) -> BulkFilter:
    told: dict[str, list[str]] = {}
    for condition in asked.where:
        name, separator, value = condition.partition("=")
        if name not in _NAMES or not separator or not value:
            raise UsageError("usage", f"{condition!r}: write {'=, '.join(_NAMES)}=")
        if name in told and name != "status":
            raise UsageError("usage", f"{name}= may be given once")
        told.setdefault(name, []).append(value)
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


def _id(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError as cause:
        raise UsageError("usage", f"{text!r} is no id of a bulk operation") from cause


def _progress(bulk: Bulk) -> str:
    told = f"{bulk.state}: {bulk.done} done, {bulk.refused} refused, {bulk.failed} failed"
    if bulk.is_overdue:
        return f"{told}; nobody works on it: start an orchestrator"
    return f"{told}; waits: {bulk.note}" if bulk.note else told


def _tell(bulk: Bulk, refusals: Sequence[Refusal]) -> None:
    lines = [f"{bulk.id}  {bulk.order.kind}", f"  {_progress(bulk)}"]
    lines += [f"  {each.business_key}: {each.detail} [{each.code}]" for each in refusals]
    told = [
        {"saga_id": r.saga_id, "business_key": r.business_key, "code": r.code, "detail": r.detail}
        for r in refusals
    ]
    current_output().tell({**_document(bulk), "refusals": told}, "\n".join(lines))


def _document(bulk: Bulk) -> dict[str, Any]:
    order = bulk.order
    return {
        "id": bulk.id,
        "operation_id": order.operation_id,
        "kind": order.kind.value,
        "tenants": list(order.wanted.tenants) if order.wanted.tenants is not None else None,
        "filter": order.wanted.plain(),
        "max": order.most,
        "actor": order.actor,
        "reason": order.reason,
        "state": bulk.state.value,
        "done": bulk.done,
        "refused": bulk.refused,
        "failed": bulk.failed,
        "note": bulk.note,
        "is_overdue": bulk.is_overdue,
        "created_at": bulk.created_at.isoformat(),
        "updated_at": bulk.updated_at.isoformat(),
    }


def _row(bulk: Bulk) -> tuple[str, ...]:
    counts = (str(bulk.done), str(bulk.refused), str(bulk.failed))
    return (bulk.id, bulk.order.kind, bulk.state, *counts, bulk.order.actor, bulk.order.reason)
