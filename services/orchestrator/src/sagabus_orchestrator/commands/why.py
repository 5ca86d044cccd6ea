"""`sagabus why`: what one saga waits for, and what would move it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from sagabus_cli import Output, current_output
from sagabus_orchestrator.commands.groups import Groups
from sagabus_orchestrator.commands.office import Document, SagaName, open_office
from sagabus_orchestrator.commands.watching import Watch, watch_saga

__all__ = ["app"]

app = typer.Typer()


@app.command()
def why(
    saga: Annotated[str, typer.Argument(help="Saga id or business key.")],
    tenant: Annotated[str | None, typer.Option(help="The saga's tenant.")] = None,
    workflow: Annotated[str | None, typer.Option(help="The saga's workflow.")] = None,
    group: Groups = None,
    *,
    watch: Watch = False,
) -> None:
    """Say what a saga waits for: who was asked what until when, and what would move it."""
    name = SagaName(saga, tenant, workflow)
    with open_office() as office:
        if watch:
            watch_saga(office, lambda named: office.why(named, group), name, _draw)
        else:
            _draw(current_output(), office.why(name, group))


def _draw(output: Output, found: Document) -> None:
    output.tell(found, "\n".join(_lines(found)))


def _lines(found: Document) -> Iterator[str]:
    paused = " (PAUSED)" if found["control"] == "PAUSED" else ""
    yield f"{found['business_key']}  {found['status']}{paused}  {found['saga_id']}"
    direction = f"{found['direction'].lower()}, revision {found['revision']}"
    workflow = f"{found['workflow']} {found['definition_version']}"
    yield f"  {workflow} · tenant {found['tenant']} · {direction}"
    for point in found["points"]:
        yield f"  {point['text']}"
    yield f"moved by: {found['moved_by']}"
