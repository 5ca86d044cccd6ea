"""`sagabus quotas set|show|list|remove`: what tenants may do, and what they do."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from sagabus_cli import UsageError, current_output
from sagabus_orchestrator.api.models.quotas import LimitAnswer
from sagabus_orchestrator.commands.office import Document, Limited, open_office
from sagabus_orchestrator.commands.session import with_database
from sagabus_orchestrator.commands.text import moment
from sagabus_orchestrator.quotas import OPERATION, START
from sagabus_orchestrator.tenants import MINUTE_MS, Tenants

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
    behind: Annotated[str, typer.Option(help="Go on behind this tenant.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Tenants of one page.")] = 1_000,
) -> None:
    """List the limits of all tenants; a tenant without one is not limited.

    Works on the database itself, not through the API.
    """
    found = with_database(lambda database: Tenants(database).limits(None, behind, limit))
    rows = [{"tenant": each.tenant, **LimitAnswer.of(each).model_dump()} for each in found]
    current_output().table(
        {"limits": rows}, _COLUMNS, list(map(_row, rows)), "no tenant is limited"
    )


def _tell(quota: Document) -> None:
    tenant = quota["tenant"]
    rows = [_row({"tenant": tenant, **each}) for each in quota["limits"]]
    current_output().table(quota, _COLUMNS, rows, f"the tenant {tenant} is not limited")


def _row(each: Document) -> tuple[str, ...]:
    window = "-" if each["window_ms"] is None else f"{each['window_ms'] / 1000:g} s"
    until = each["resets_at"]
    resets = "-" if until is None else f"{moment(until):%Y-%m-%d %H:%M:%S}"
    return (each["tenant"], each["action"], str(each["most"]), str(each["used"]), window, resets)
