"""The command `sagabus demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagabus_cli.demo.stage import Stage
from sagabus_cli.demo.story import Plot, play
from sagabus_cli.errors import FailedOutcome
from sagabus_cli.output import current_output

__all__ = ["app"]

app = typer.Typer()


@app.command()
def demo(
    orders: Annotated[int, typer.Option(min=12, help="How many orders.")] = 200,
    seed: Annotated[int, typer.Option(help="Which mix of scenarios.")] = 1,
    into: Annotated[Path, typer.Option(help="Folder of demo.json and the logs.")] = Path("build"),
) -> None:
    """Run orders through real services that are killed meanwhile, and check all books afterwards.

    Exit code 0 only if every order ended as its scenario demands and stock, shipments and money
    agree. Everything that was started is stopped.
    """
    stage = Stage(silent=current_output().as_json)
    result = play(Plot(orders, seed, into), stage)
    if current_output().as_json:
        current_output().tell(result.document(), "")
    if not result.is_right:
        raise typer.Exit(FailedOutcome.exit_code)
