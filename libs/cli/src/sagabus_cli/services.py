"""`sagabus services`: all services on the local stack of `sagabus up`, to explore."""

from __future__ import annotations

import signal
from pathlib import Path

import typer

from sagabus_cli.connection import DEV
from sagabus_cli.errors import FailedOutcome, NotReachable
from sagabus_cli.output import current_output
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.stack.record import read_record
from sagabus_testkit.system import Servers, System

__all__ = ["app"]

app = typer.Typer()


@app.command()
def services() -> None:
    """Run orchestrator, timer, relay and the example participants until Ctrl-C.

    On the stack of `sagabus up`, with the order workflow active: `sagabus start order ...` and the
    other commands find them without any option. Sagas are kept for the next time.
    """
    record = read_record(DEV)
    if record is None:
        raise NotReachable("no_stack", "the local stack does not run: start it with `sagabus up`")
    output = current_output()
    output.note("starting 7 services; their logs are in the stack's folder")
    # SIGTERM as Ctrl-C, so that the services end in good order with the block below.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    servers = Servers.named(record.kafka, record.postgres)
    with System(servers, Path(record.directory) / "services", name=DEV) as system:
        system.start()
        published = system.command("definitions", "publish", str(DEFINITION), "--activate")
        if published.returncode != 0:
            raise FailedOutcome("demo_failed", f"publishing failed: {published.stderr.strip()}")
        output.tell(
            {"services": list(system.names), "environment": system.environment},
            f"{published.stdout.strip()}; {', '.join(system.names)} are ready. Ctrl-C ends them.",
        )
        signal.pause()
