"""`sagabus hold set|release|list`: keep commands of a workflow, or to a participant, back."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from sagabus_cli import current_output
from sagabus_orchestrator.commands.office import Document, Switch, open_office
from sagabus_orchestrator.commands.text import moment

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Hold a workflow or a participant: issue no command.")
_COLUMNS: Final = ("what", "name", "tenant", "sagas", "since", "by", "reason", "state")


class _Target(StrEnum):
    """What can be held."""

    WORKFLOW = "workflow"
    PARTICIPANT = "participant"


What = Annotated[_Target, typer.Argument(help="workflow or participant.")]
Name = Annotated[str, typer.Argument(help="Its name.")]
Why = Annotated[str, typer.Option("--reason", help="Why; kept in the audit and the journals.")]
Tenant = Annotated[str | None, typer.Option("--tenant", help="Only of this tenant; none: of all.")]


@app.command("set")
def set_hold(what: What, name: Name, reason: Why, tenant: Tenant = None) -> None:
    """Issue no more commands; a saga that would is paused, a start that would is refused."""
    with open_office() as office:
        hold = office.hold(_switch(what, name, tenant), reason)
    said = f"{hold['target']} {hold['name']} is held by {hold['actor']}"
    current_output().tell(hold, said)


@app.command()
def release(what: What, name: Name, reason: Why, tenant: Tenant = None) -> None:
    """Release a hold: the sagas that it paused go on, one after another."""
    with open_office() as office:
        office.release(_switch(what, name, tenant), reason)
    current_output().tell(
        {"released": True, "target": what.value, "name": name, "tenant": tenant},
        f"{what} {name} is released",
    )


@app.command("list")
def list_holds() -> None:
    """List holds with the sagas that they have paused; released ones until those have gone on."""
    with open_office() as office:
        found = office.holds()
    current_output().table(found, _COLUMNS, list(map(_row, found["holds"])), "nothing is held")


def _switch(what: _Target, name: str, tenant: str | None) -> Switch:
    return Switch("workflow" if what is _Target.WORKFLOW else "participant", name, tenant)


def _row(hold: Document) -> tuple[str, ...]:
    state = "held" if hold["released_at"] is None else "released, sagas go on"
    since = f"{moment(hold['set_at']):%Y-%m-%d %H:%M:%S}"
    sagas = "-" if hold["sagas"] is None else str(hold["sagas"])
    who = (sagas, since, hold["actor"], hold["reason"])
    return (hold["target"], hold["name"], hold["tenant"] or "-", *who, state)
