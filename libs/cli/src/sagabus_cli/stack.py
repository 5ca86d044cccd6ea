"""Commands around the local stack: up, down, check-stack; each imports what it needs in time."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from sagabus_cli.errors import FailedOutcome
from sagabus_cli.output import current_output

__all__ = ["check_stack", "down", "up"]

StackName = Annotated[str, typer.Option("--name", help="Which stack; each has its own data.")]


def up(name: StackName = "dev") -> None:
    """Start a local Kafka and Postgres to explore, and print how to reach them.

    They run until `sagabus down` and keep their data. If they run already, only prints.
    """
    from sagabus_testkit.stack.detached import start_detached  # noqa: PLC0415

    output = current_output()
    output.note(f"starting the stack {name!r} (the first time brings Kafka's jars, up to a minute)")
    record = start_detached(name)
    output.tell(
        asdict(record),
        f"Kafka          {record.kafka}\n"
        f"Postgres       {record.postgres}\n"
        f"logs and data  {record.directory}\n"
        "`sagabus services` runs the services on it; commands here find it by themselves",
    )


def down(
    name: StackName = "dev",
    *,
    delete: Annotated[bool, typer.Option("--delete-data", help="Remove its data too.")] = False,
) -> None:
    """Stop what `sagabus up` started. Nothing happens if nothing runs."""
    from sagabus_testkit.stack.detached import delete_data, stop_detached  # noqa: PLC0415

    stopped = stop_detached(name)
    if delete:
        delete_data(name)
    state = "stopped" if stopped else "was not running"
    document = {"name": name, "stopped": stopped, "data_deleted": delete}
    current_output().tell(document, f"stack {name!r} {state}{', data deleted' if delete else ''}")


def check_stack(name: StackName = "dev") -> None:
    """Check what the local stack needs, and the running stack; say how to mend what is amiss."""
    from sagabus_testkit.stack import checks as stack_checks  # noqa: PLC0415

    checks = stack_checks.check_stack(name)
    failed = [check for check in checks if check.state == "failed"]
    current_output().table(
        {"healthy": not failed, "checks": [asdict(check) for check in checks]},
        ("check", "state", "found", "to mend"),
        [(check.name, check.state, check.found, check.mend) for check in checks],
    )
    if failed:
        # The document says it already: an error would be a second one.
        raise typer.Exit(FailedOutcome.exit_code)
