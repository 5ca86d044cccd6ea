"""The command `sagabus services`: orchestrator, API, timer, relay, examples on the dev stack."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import typer

from sagabus_cli.address import announcement
from sagabus_cli.connection import DEV
from sagabus_cli.errors import NotReachable
from sagabus_cli.output import current_output
from sagabus_cli.processes import revive, until_signal
from sagabus_testkit.orders import DEFINITION
from sagabus_testkit.stack.home import StackHome
from sagabus_testkit.stack.record import StackRecord, read_record
from sagabus_testkit.system import API, SERVICES, Servers, System

__all__ = ["app"]

app = typer.Typer()

_LOOK_EVERY_S = 1.0


@app.command()
def services() -> None:
    """Run all services on the stack of `sagabus up` until Ctrl-C.

    The order workflow is active, and the other commands find the system without any option. Sagas
    are kept: the next run goes on where this one ended. A service that is killed is started again.
    """
    record = read_record(DEV)
    if record is None:
        raise NotReachable("no_stack", "no stack runs: start one with `sagabus up` (or `make up`)")
    with until_signal() as ended, _home(record) as home:
        servers = Servers.named(record.kafka, record.postgres)
        current_output().note("starting the services")
        kinds = (*SERVICES, API)
        with System(servers, home.directory, name=DEV, kinds=kinds) as system:
            system.start()
            with _announced(record, system):
                _revive_until(ended, system)
            current_output().note("stopping the services")


@contextmanager
def _home(record: StackRecord) -> Iterator[StackHome]:
    # The lock of the folder: a second run would write over the logs and process ids of the first.
    home = StackHome("services", root=Path(record.directory), keep=True)
    try:
        yield home
    finally:
        home.close()


def _revive_until(ended: Event, system: System) -> None:
    while not ended.wait(_LOOK_EVERY_S):
        revive(system)


@contextmanager
def _announced(record: StackRecord, system: System) -> Iterator[None]:
    """Say what runs; write down the API where other commands look for it, not its key."""
    workflow, key = _publish(system), _make_key(system)
    file = announcement(record.directory)
    file.write_text(json.dumps({"url": system.api_url, "key_file": str(key)}) + "\n")
    _tell(system, workflow, key)
    try:
        yield
    finally:
        file.unlink(missing_ok=True)


def _publish(system: System) -> str:
    # A kept database may hold an older document under the same version: that is no failure.
    published = system.command("--direct", "definitions", "publish", str(DEFINITION), "--activate")
    return (published.stdout or published.stderr).strip()


def _make_key(system: System) -> Path:
    """Return the file of this stack's own key, made once: nothing is open without one."""
    file = system.directory / "api.key"
    # Not through an API that this shell happens to name: the key is for the one that starts here.
    made = system.command(
        *(
            "--direct",
            "keys",
            "create",
            "local",
            "--grant",
            "admin",
            "--all-tenants",
            "--days",
            "0",
        ),
        *("--file", str(file)),
    )
    if made.returncode != 0:
        raise NotReachable("no_local_key", f"no key for the API: {made.stderr.strip()[-200:]}")
    return file


def _tell(system: System, workflow: str, key: Path) -> None:
    pids = {name: system.pid(name) for name in system.names}
    lines = [f"{name:<14} pid {pid}" for name, pid in pids.items()]
    lines.append(workflow)
    lines.append(f"API {system.api_url}, its key in {key} (header X-API-Key)")
    lines.append(f"ready; logs in {system.directory}; Ctrl-C stops them")
    document = {
        "directory": str(system.directory),
        "services": pids,
        "workflow": workflow,
        "api": {"url": system.api_url, "key_file": str(key)},
    }
    current_output().tell(document, "\n".join(lines))
