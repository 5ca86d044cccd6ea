"""`sagabus audit list|facts|verify`: who did what and why, what happened, and whether it holds."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

import typer

from sagabus_cli import Output, UsageError, current_output
from sagabus_orchestrator.audit.pages import Wanted
from sagabus_orchestrator.commands.office import Document, open_office
from sagabus_orchestrator.commands.session import utc
from sagabus_orchestrator.commands.text import moment
from sagabus_orchestrator.commands.verify import verify

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Who did what and why; journals, and their proof.")
app.command()(verify)

_NAMES = ("tenant", "workflow", "saga", "kind", "actor", "outcome")
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        help="tenant=, workflow=, saga= (id), kind=, actor= or, of operations, outcome="
        "done|refused; all given must hold.",
    ),
]
Since = Annotated[datetime | None, typer.Option(help="Recorded at or after this time (UTC).")]
Until = Annotated[datetime | None, typer.Option(help="Recorded before this time (UTC).")]
Limit = Annotated[int, typer.Option(min=1, max=1_000, help="Rows of one page.")]
Cursor = Annotated[str | None, typer.Option(help="Go on after a page: its cursor.")]


@app.command("list")
def list_acts(
    where: Where = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List management operations, the oldest first: who asked for what, why, and the outcome."""
    wanted = _wanted(where, since, until)
    with open_office() as office:
        page = office.audit(wanted, limit, cursor)
    output = current_output()
    output.table(
        page,
        ("seq", "at", "actor", "what", "subject", "outcome", "reason"),
        [_act_line(row) for row in page["rows"]],
        empty="no such operation",
    )
    if page["withheld"]:
        output.note(
            f"{page['withheld']} refusals came too fast to be written; the next row will say so"
        )
    _tell_rest(output, page)


@app.command()
def facts(
    where: Where = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> None:
    """List journal facts of all sagas by their global number, the oldest first."""
    wanted = _wanted(where, since, until)
    with open_office() as office:
        page = office.facts(wanted, limit, cursor)
    output = current_output()
    output.table(
        page,
        ("seq", "at", "business key", "rev", "fact", "subject", "to"),
        [_fact_line(row) for row in page["rows"]],
        empty="no such fact",
    )
    _tell_rest(output, page)


def _wanted(where: Sequence[str] | None, since: datetime | None, until: datetime | None) -> Wanted:
    told: dict[str, str] = {}
    for condition in where or ():
        name, separator, value = condition.partition("=")
        if name not in _NAMES or not separator or not value:
            raise UsageError("usage", f"{condition!r}: write {'=, '.join(_NAMES)}=")
        told[name] = value
    tenant = told.get("tenant")
    return Wanted(
        tenants=None if tenant is None else [tenant],
        workflow=told.get("workflow"),
        saga_id=_saga_id(told.get("saga")),
        kind=told.get("kind"),
        actor=told.get("actor"),
        since=utc(since),
        until=utc(until),
        outcome=_outcome(told.get("outcome")),
    )


def _saga_id(text: str | None) -> str | None:
    try:
        return None if text is None else str(uuid.UUID(text))
    except ValueError as cause:
        raise UsageError("usage", "saga= takes a saga id") from cause


def _outcome(text: str | None) -> Literal["done", "refused"] | None:
    match text:
        case None | "done" | "refused":
            return text
        case _:
            raise UsageError("usage", "outcome= is done or refused")


def _act_line(row: Document) -> tuple[str, ...]:
    outcome = f"refused: {row['code']}" if row["outcome"] == "refused" else row["detail"]
    at = f"{moment(row['recorded_at']):%Y-%m-%d %H:%M:%S}"
    return (str(row["seq"]), at, row["actor"], row["kind"], row["subject"], outcome, row["reason"])


def _fact_line(row: Document) -> tuple[str, ...]:
    fact = row["fact"] or {"kind": "UNREADABLE"}
    told = [str(fact.get(name) or "") for name in ("kind", "subject", "to")]
    key = row["business_key"] or row["saga_id"]
    at = f"{moment(row['recorded_at']):%Y-%m-%d %H:%M:%S}"
    return (str(row["seq"]), at, key, str(row["revision"]), *told)


def _tell_rest(output: Output, page: Document) -> None:
    if (held := page["held"]) is not None:
        who = f" by {held['application'] or 'a session'} (pid {held['pid']}, database "
        whom = f"{who}{held['database']})" if held["pid"] else ""
        output.note(f"newer rows are held back for {held['since_ms'] / 1000:.1f} s{whom}")
    if page["more"]:
        output.note("there is more")
    output.note(f"go on behind this page: --cursor {page['cursor']}")
