"""`sagabus list` and `sagabus show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import typer

from sagabus_cli import Output, UsageError, current_output, options_of
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.commands.office import Document, Listing, SagaName, open_office
from sagabus_orchestrator.commands.text import moment, saga_text, standing
from sagabus_orchestrator.commands.watching import Watch, watch_page, watch_saga

__all__ = ["list_app", "show_app"]

list_app = typer.Typer()
show_app = typer.Typer()

_COLUMNS: Final = ("business key", "workflow", "status", "rev", "started", "took", "id")
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
    watch: Watch = False


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
    empty = "no saga" if asked.archived else "no saga (those of the archive: --archived)"

    def draw(output: Output, page: Document) -> None:
        output.table(page, _COLUMNS, [_row(saga) for saga in page["sagas"]], empty=empty)
        if page["next_cursor"]:
            output.note(f"more: --cursor {page['next_cursor']}")

    with open_office() as office:
        if asked.watch:
            watch_page(office, wanted, lambda: office.sagas(wanted), draw)
        draw(current_output(), office.sagas(wanted))


@show_app.command()
def show(
    sagas: Annotated[list[str], typer.Argument(help="Saga ids or business keys.")],
    tenant: Tenant = None,
    workflow: Workflow = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Tell every fact of the journal, derived ones too.")
    ] = False,
    watch: Watch = False,
) -> None:
    """Show sagas: status, steps with their attempts, variables, plan, and what happened when."""

    def draw(output: Output, saga: Document) -> None:
        output.tell(saga, saga_text(saga, everything=everything))

    names = [SagaName(name, tenant, workflow) for name in sagas]
    if watch and len(names) > 1:
        raise UsageError("usage", "--watch is for one saga")
    with open_office() as office:
        if watch:
            watch_saga(office, office.saga, names[0], draw)
            return
        found = [office.saga(name) for name in names]
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
