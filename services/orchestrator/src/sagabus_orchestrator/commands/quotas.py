"""`sagabus quotas set|show|list|remove`: what tenants may do, and what they do."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from sagabus_cli import UsageError, current_output
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_orchestrator.quotas import OPERATION, START, Action
from sagabus_orchestrator.tenants import MINUTE_MS, Limit, Tenants
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Limits of tenants: running sagas, action rates.")

Tenant = Annotated[str, typer.Argument(help="The tenant.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


class What(StrEnum):
    """The limits that a tenant can have."""

    RUNNING = "running"
    STARTS = "starts"
    OPERATIONS = "operations"


_ACTIONS: Final[dict[What, Action]] = {What.STARTS: START, What.OPERATIONS: OPERATION}


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
    rates = {START: starts, OPERATION: operations}
    if running is None and starts is None and operations is None:
        raise UsageError("usage", "name a limit: --running, --starts or --operations")

    async def work(database: Database) -> list[Limit]:
        tenants, by = Tenants(database), By(actor(), reason)
        if running is not None:
            await tenants.set_quota(tenant, running, by)
        for action, most in rates.items():
            if most is not None:
                await tenants.set_rate(tenant, action, most, window_s * 1_000, by)
        return await tenants.limits(tenant)

    _tell(with_database(work))


@app.command()
def remove(
    tenant: Tenant,
    what: Annotated[list[What], typer.Argument(help="Which limits.")],
    reason: Why = "",
) -> None:
    """Remove limits of a tenant."""

    async def work(database: Database) -> list[Limit]:
        tenants, by = Tenants(database), By(actor(), reason)
        for each in what:
            if each is What.RUNNING:
                await tenants.remove_quota(tenant, by)
            else:
                await tenants.remove_rate(tenant, _ACTIONS[each], by)
        return await tenants.limits(tenant)

    _tell(with_database(work))


@app.command()
def show(tenant: Tenant) -> None:
    """Show the limits of a tenant and what of them is used now."""
    _tell(with_database(lambda database: Tenants(database).limits(tenant)))


@app.command("list")
def list_limits(
    behind: Annotated[str, typer.Option(help="Go on behind this tenant.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000, help="Tenants of one page.")] = 1_000,
) -> None:
    """List the limits of all tenants; a tenant without one is not limited."""
    _tell(with_database(lambda database: Tenants(database).limits(None, behind, limit)))


def _tell(limits: Sequence[Limit]) -> None:
    current_output().table(
        {"limits": [_document(each) for each in limits]},
        ("tenant", "limit of", "most", "used", "window", "new window at"),
        [_row(each) for each in limits],
    )


def _document(each: Limit) -> dict[str, Any]:
    return {
        "tenant": each.tenant,
        "action": each.action,
        "most": each.most,
        "used": each.used,
        "window_ms": each.window_ms,
        "resets_at": each.resets_at.isoformat() if each.resets_at else None,
    }


def _row(each: Limit) -> tuple[str, ...]:
    window = "-" if each.window_ms is None else f"{each.window_ms / 1000:g} s"
    resets = "-" if each.resets_at is None else f"{each.resets_at:%Y-%m-%d %H:%M:%S}"
    return (each.tenant, each.action, str(each.most), str(each.used), window, resets)
