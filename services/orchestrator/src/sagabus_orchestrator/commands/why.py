"""`sagabus why`: what one saga waits for, and what would move it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from sagabus_cli import current_output
from sagabus_orchestrator.commands.groups import Groups
from sagabus_orchestrator.commands.office import Document, SagaName, open_office

__all__ = ["app"]

app = typer.Typer()


@app.command()
def why(
    saga: Annotated[str, typer.Argument(help="Saga id or business key.")],
    tenant: Annotated[str | None, typer.Option(help="The saga's tenant.")] = None,
    workflow: Annotated[str | None, typer.Option(help="The saga's workflow.")] = None,
    group: Groups = None,
) -> None:
    """Say what a saga waits for: who was asked what until when, and what would move it."""
    with open_office() as office:
        found = office.why(SagaName(saga, tenant, workflow), group)
    current_output().tell(found, "\n".join(_lines(found)))


def _lines(found: Document) -> Iterator[str]:
    paused = " (PAUSED)" if found["control"] == "PAUSED" else ""
    yield f"{found['business_key']}  {found['status']}{paused}  {found['saga_id']}"
    direction = f"{found['direction'].lower()}, revision {found['revision']}"
    workflow = f"{found['workflow']} {found['definition_version']}"
    yield f"  {workflow} · tenant {found['tenant']} · {direction}"
    for point in found["points"]:
        yield f"  {point['text']}"
    yield f"moved by: {found['moved_by']}"
