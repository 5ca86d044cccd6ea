"""`sagabus archive`: move ended sagas out of the hot tables, drop old months of the journal."""

from __future__ import annotations

from typing import Annotated

import typer
from prometheus_client import CollectorRegistry

from sagabus_cli import Progress, current_output
from sagabus_orchestrator.audit.trail import By
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_orchestrator.upkeep.archive import (
    Archive,
    ArchivePolicy,
    DroppedPartition,
    drop_journal,
)
from sagabus_orchestrator.upkeep.events import UpkeepEvents
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Move ended sagas to the archive; drop old journals.\n\n"
    "Upkeep of the orchestrator's database itself, not through the API, which has no right to\n"
    "remove anything.",
)

Reason = Annotated[str, typer.Option("--reason", help="Why; kept in the audit.")]


@app.command()
def run(
    after_days: Annotated[
        int, typer.Option(min=0, max=3_650, help="Days since their last change.")
    ] = 30,
    batch: Annotated[int, typer.Option(min=1, max=5_000, help="Sagas of one transaction.")] = 200,
    reason: Reason = "",
) -> None:
    """Archive everything that is old enough, as the orchestrator does in the background."""
    by = By(actor(), reason)

    async def work(database: Database) -> int:
        policy = ArchivePolicy(after_days, batch)
        archive = Archive(database, UpkeepEvents(CollectorRegistry()), policy)
        progress, moved, last = Progress("sagas"), 0, batch
        while last == batch:
            last = await archive.move(after_days, by)
            moved += last
            progress.advance(last)
        return moved

    moved = with_database(work)
    current_output().tell({"archived": moved}, f"{moved} sagas are in the archive now")


@app.command("drop-journal")
def drop(
    keep_months: Annotated[
        int, typer.Option(min=1, max=240, help="Months that stay, the present one included.")
    ] = 3,
    max_copied: Annotated[
        int, typer.Option(min=0, help="Most facts of sagas at work that a month may still hold.")
    ] = 100_000,
    reason: Reason = "",
) -> None:
    """Drop old months of the journal; facts of sagas that are not archived move on first."""
    by = By(actor(), reason)

    async def work(database: Database) -> list[DroppedPartition]:
        return await drop_journal(database, keep_months, max_copied, by)

    dropped = with_database(work)
    lines = [f"{each.first_day:%Y-%m} dropped, {each.copied} facts moved on" for each in dropped]
    current_output().tell(
        {"dropped": [{"month": f"{d.first_day:%Y-%m}", "copied": d.copied} for d in dropped]},
        "\n".join(lines) or "nothing to drop",
    )
