"""The consumer groups of a deployment, as its settings and the command line name them."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Annotated, Final, TypeAlias

import typer

from sagabus_cli import UsageError, current_connection
from sagabus_orchestrator.readers import ORCHESTRATOR, TIMER, Readers

__all__ = ["Groups", "chosen_readers"]

_VARIABLES: Final = {
    ORCHESTRATOR: "SAGABUS_ORCHESTRATOR_GROUP",
    TIMER: "SAGABUS_TIMER_GROUP",
}
Groups: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--group",
        help="SERVICE=GROUP where a service has another group than usual: orchestrator, timer or "
        "a participant. Also SAGABUS_ORCHESTRATOR_GROUP and SAGABUS_TIMER_GROUP, as the services "
        "read them.",
    ),
]


def chosen_readers(named: Iterable[str] | None) -> Readers:
    """Return the groups of this run. Raises `UsageError` for what is no SERVICE=GROUP."""
    topics = current_connection().topics
    groups = {
        service: f"{topics.prefix}{group}"
        for service, variable in _VARIABLES.items()
        if (group := os.environ.get(variable))
    }
    for each in named or ():
        service, _, group = each.partition("=")
        if not service or not group:
            raise UsageError("usage", f"--group {each!r} is not SERVICE=GROUP")
        groups[service] = group
    return Readers(topics, groups)
