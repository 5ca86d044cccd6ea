"""`sagabus hold set|release|list`: keep commands of a workflow, or to a participant, back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from sagabus_cli import current_output
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_orchestrator.switchboard import HoldState, Switchboard, Target
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Hold a workflow or a participant: issue no command.\n\n"
    "Works on the database itself, not through the API.",
)


class _Target(StrEnum):
    """What can be held."""

    WORKFLOW = "workflow"
    PARTICIPANT = "participant"

    @property
    def literal(self) -> Target:
        return "workflow" if self is _Target.WORKFLOW else "participant"


What = Annotated[_Target, typer.Argument(help="workflow or participant.")]
Name = Annotated[str, typer.Argument(help="Its name.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit and the journals.")]
Tenant = Annotated[str, typer.Option("--tenant", help="Only of this tenant; none: of all.")]


@app.command("set")
def set_hold(what: What, name: Name, reason: Why, tenant: Tenant = "") -> None:
    """Issue no more commands; a saga that would is paused, a start that would is refused."""

    async def work(database: Database) -> HoldState:
        by = By(actor(), reason)
        return await Switchboard(database).set(what.literal, name, by, tenant)

    hold = with_database(work)
    current_output().tell(_document(hold), f"{hold.target} {hold.name} is held by {hold.actor}")


@app.command()
def release(what: What, name: Name, reason: Why, tenant: Tenant = "") -> None:
    """Release a hold: the sagas that it paused go on, one after another."""

    async def work(database: Database) -> None:
        await Switchboard(database).release(what.literal, name, By(actor(), reason), tenant)

    with_database(work)
    current_output().tell(
        {"released": True, "target": what.value, "name": name, "tenant": tenant or None},
        f"{what} {name} is released",
    )


@app.command("list")
def list_holds() -> None:
    """List holds with the sagas that they have paused; released ones until those have gone on."""
    found = with_database(lambda database: Switchboard(database).list())
    current_output().table(
        {"holds": [_document(hold) for hold in found]},
        ("what", "name", "tenant", "sagas", "since", "by", "reason", "state"),
        [_row(hold) for hold in found],
    )


def _document(hold: HoldState) -> dict[str, Any]:
    return {
        "id": hold.id,
        "target": hold.target,
        "name": hold.name,
        "tenant": hold.tenant or None,
        "actor": hold.actor,
        "reason": hold.reason,
        "set_at": hold.set_at.isoformat(),
        "released_at": hold.released_at.isoformat() if hold.released_at else None,
        "sagas": hold.sagas,
    }


def _row(hold: HoldState) -> tuple[str, ...]:
    state = "held" if hold.released_at is None else "released, sagas go on"
    since = f"{hold.set_at:%Y-%m-%d %H:%M:%S}"
    who = (str(hold.sagas), since, hold.actor, hold.reason)
    return (hold.target, hold.name, hold.tenant or "-", *who, state)
