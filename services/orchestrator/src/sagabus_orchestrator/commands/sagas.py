"""`sagabus list` and `sagabus show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from sagabus_cli import current_output, options_of
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.commands.office import Document, Listing, SagaName, open_office
from sagabus_orchestrator.commands.text import moment, saga_text, standing

__all__ = ["list_app", "show_app"]

list_app = typer.Typer()
show_app = typer.Typer()

Tenant = Annotated[str | None, typer.Option(help="Only this tenant.")]
Workflow = Annotated[str | None, typer.Option(help="Only this workflow.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """The options of `list`."""

    tenant: Tenant = None
    workflow: Workflow = None
    status: Annotated[
        list[SagaStatus] | None, typer.Option(help="Only this status; may be given several times.")
    ] = None
    key: Annotated[str | None, typer.Option(help="Only keys that begin like this.")] = None
    archived: Annotated[bool, typer.Option("--archived", help="Those of the archive too.")] = False
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Sagas of one page.")] = 50
    cursor: Annotated[str | None, typer.Option(help="Go on after a page: its next cursor.")] = None


@list_app.command()
@options_of(_Asked)
def list_sagas(asked: _Asked) -> None:
    """List sagas, newest first."""
    wanted = Listing(
        asked.tenant,
        asked.workflow,
        asked.status or (),
        asked.key,
        asked.archived,
        asked.limit,
        asked.cursor,
    )
    with open_office() as office:
        page = office.sagas(wanted)
    output = current_output()
    output.table(
        page,
        ("business key", "workflow", "status", "rev", "started", "took", "id"),
        [_row(saga) for saga in page["sagas"]],
        empty="no saga" if asked.archived else "no saga (those of the archive: --archived)",
    )
    if page["next_cursor"]:
        output.note(f"more: --cursor {page['next_cursor']}")


@show_app.command()
def show(
    sagas: Annotated[list[str], typer.Argument(help="Saga ids or business keys.")],
    tenant: Tenant = None,
    workflow: Workflow = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Tell every fact of the journal, derived ones too.")
    ] = False,
) -> None:
    """Show sagas: status, steps with their attempts, variables, plan, and what happened when."""
    with open_office() as office:
        found = [office.saga(SagaName(name, tenant, workflow)) for name in sagas]
    text = "\n\n".join(saga_text(saga, everything=everything) for saga in found)
    current_output().tell(found[0] if len(found) == 1 else {"sagas": found}, text)


def _row(saga: Document) -> tuple[str, ...]:
    created, updated = moment(saga["created_at"]), moment(saga["updated_at"])
    return (
        saga["business_key"],
        f"{saga['workflow']} {saga['definition_version']}",
        standing(saga),
        str(saga["revision"]),
        f"{created:%Y-%m-%d %H:%M:%S}",
        f"{(updated - created).total_seconds():.3f} s",
        saga["saga_id"],
    )
