"""`sagabus recovery list|discard`: answers that no command claimed after a restore."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from sagabus_cli import current_connection, current_output
from sagabus_messages import format_instant
from sagabus_orchestrator.commands.session import actor, with_database
from sagabus_orchestrator.leftovers import Leftover, Leftovers
from sagabus_store import Database

__all__ = ["app"]

app = typer.Typer(
    help="What stayed behind after a restored database was caught up.\n\n"
    "Works on the restored database itself, not through the API, which may not be open yet.",
)


@app.command("list")
def list_leftovers(
    beyond: Annotated[int, typer.Option(min=0, help="Go on behind this number.")] = 0,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Answers of one page.")] = 100,
) -> None:
    """List answers to commands that this database never issued, the oldest first."""
    topics = current_connection().topics

    async def work(database: Database) -> list[Leftover]:
        return await Leftovers(database, topics).page(beyond, limit)

    found = with_database(work)
    current_output().table(
        {"early": [_document(each) for each in found]},
        ("id", "business key", "step", "asked", "answered", "saga is"),
        [_row(each) for each in found],
        empty="no answer waits for a command",
    )


@app.command()
def discard(
    numbers: Annotated[list[int], typer.Argument(help="Ids that `list` shows.")],
    reason: Annotated[str, typer.Option("--reason", help="Why; kept with the answer.")],
) -> None:
    """Settle answers by hand: they wait no longer and stay in the table as evidence."""
    topics = current_connection().topics

    async def work(database: Database) -> list[int]:
        return await Leftovers(database, topics).discard(numbers, actor(), reason)

    done = with_database(work)
    current_output().tell({"discarded": done}, f"discarded {len(done)}")


def _row(each: Leftover) -> tuple[str, ...]:
    status = each.saga_status or "unknown here"
    return (str(each.id), each.business_key, each.activation, each.asked, each.answered, status)


def _document(each: Leftover) -> dict[str, Any]:
    names = ("id", "saga_id", "tenant", "workflow", "business_key", "activation", "asked")
    return {
        **{name: getattr(each, name) for name in names},
        "answered": each.answered,
        "saga_status": each.saga_status,
        "kept_at": format_instant(int(each.kept_at.timestamp() * 1000)),
    }
