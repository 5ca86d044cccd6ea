"""`sagabus quotas set|show|list|remove`: what tenants may do, and what they do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from sagabus_cli import UsageError, current_output
from sagabus_orchestrator.commands.office import Document, Limited, open_office
from sagabus_orchestrator.commands.text import moment
from sagabus_orchestrator.quotas import OPERATION, START
from sagabus_orchestrator.tenants import MINUTE_MS

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Limits of tenants: running sagas, action rates.")

Tenant = Annotated[str, typer.Argument(help="The tenant.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


class What(StrEnum):
    """The limits that a tenant can have."""

    RUNNING = "running"
    STARTS = "starts"
    OPERATIONS = "operations"


_LIMITED: Final[dict[What, Limited]] = {
    What.RUNNING: "running",
    What.STARTS: START,
    What.OPERATIONS: OPERATION,
}
_COLUMNS: Final = ("tenant", "limit of", "most", "used", "window", "new window at")


@app.command("set")
def set_limits(
    tenant: Tenant,
    running: Annotated[
        int | None, typer.Option(min=0, help="Most sagas that are not at their end.")
    ] = None,
    starts: Annotated[int | None, typer.Option(min=0, help="Most starts in a window.")] = None,
    operations: Annotated[
        int | None, typer.Option(min=0, help="Most operations in a window.")
    ] = None,
    window_s: Annotated[
        int, typer.Option(min=1, max=86_400, help="Length of the windows, in seconds.")
    ] = MINUTE_MS // 1_000,
    reason: Why = "",
) -> None:
    """Set limits of a tenant; those that are not named stay as they are."""
    told: dict[Limited, int | None] = {"running": running, START: starts, OPERATION: operations}
    most = {what: limit for what, limit in told.items() if limit is not None}
    if not most:
        raise UsageError("usage", "name a limit: --running, --starts or --operations")
    with open_office() as office:
        _tell(office.set_quota(tenant, most, window_s * 1_000, reason))


@app.command()
def remove(
    tenant: Tenant,
    what: Annotated[list[What], typer.Argument(help="Which limits.")],
    reason: Why = "",
) -> None:
    """Remove limits of a tenant."""
    with open_office() as office:
        _tell(office.remove_quota(tenant, [_LIMITED[each] for each in what], reason))


@app.command()
def show(tenant: Tenant) -> None:
    """Show the limits of a tenant and what of them is used now."""
    with open_office() as office:
        _tell(office.quota(tenant))


@app.command("list")
def list_limits(
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Tenants of one page.")] = 100,
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None,
) -> None:
    """List the limits of all tenants; a tenant without one is not limited."""
    with open_office() as office:
        page = office.quotas(cursor or "", limit)
    output = current_output()
    rows = [row for quota in page["quotas"] for row in _rows(quota)]
    output.table(page, _COLUMNS, rows, "no tenant is limited")
    if page["next_cursor"]:
        output.note(f"more: --cursor {page['next_cursor']}")


def _tell(quota: Document) -> None:
    empty = f"the tenant {quota['tenant']} is not limited"
    current_output().table(quota, _COLUMNS, _rows(quota), empty)


def _rows(quota: Document) -> list[tuple[str, ...]]:
    return [_row(quota["tenant"], each) for each in quota["limits"]]


def _row(tenant: str, each: Document) -> tuple[str, ...]:
    window = "-" if each["window_ms"] is None else f"{each['window_ms'] / 1000:g} s"
    until = each["resets_at"]
    resets = "-" if until is None else f"{moment(until):%Y-%m-%d %H:%M:%S}"
    return (tenant, each["action"], str(each["most"]), str(each["used"]), window, resets)
