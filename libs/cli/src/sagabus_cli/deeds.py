"""What commands that change something by hand share: who, why, once, which, and a dry run."""

from __future__ import annotations

import getpass
import json
import os
import uuid
from collections.abc import Collection, Sequence
from typing import Annotated, Final, TypeAlias

import typer

from sagabus_cli.connection import checked_dsn
from sagabus_cli.errors import UsageError

__all__ = [
    "MAX_DEEDS",
    "DryRun",
    "Limit",
    "OperationId",
    "Why",
    "actor",
    "chosen_operation_id",
    "read_conditions",
    "read_outboxes",
]

MAX_DEEDS: Final = 1_000
"""Most things that one call changes; what matches beyond them is told, and left for the next."""

Why: TypeAlias = Annotated[str, typer.Option("--reason", help="Why; kept with what was done.")]
OperationId: TypeAlias = Annotated[
    str | None,
    typer.Option("--operation-id", help="Your id: the same one again does nothing twice."),
]
DryRun: TypeAlias = Annotated[bool, typer.Option("--dry-run", help="Only say what would happen.")]
Limit: TypeAlias = Annotated[
    int, typer.Option("--limit", min=1, max=MAX_DEEDS, help="At most this many.")
]


def actor() -> str:
    """Return who acts: SAGABUS_ACTOR, else the user of this machine."""
    return os.environ.get("SAGABUS_ACTOR") or getpass.getuser()


def chosen_operation_id(given: str | None) -> str:
    """Return the caller's operation id, or a new one: then a second call does it again."""
    return given or str(uuid.uuid4())


def read_conditions(where: Sequence[str] | None, known: Collection[str]) -> dict[str, str]:
    """Return conditions `name=value` by name. Raises `UsageError` for an unknown or empty one."""
    told: dict[str, str] = {}
    for condition in where or ():
        name, _, value = condition.partition("=")
        if name not in known or not value:
            names = ", ".join(f"{each}=" for each in sorted(known))
            raise UsageError("usage", f"{condition!r}: write one of {names}")
        told[name] = value
    return told


def read_outboxes() -> dict[str, str] | None:
    """Return the DSN of every outbox that SAGABUS_OUTBOXES names, None where it is not set.

    Reads what the relay reads: an object `name: DSN`, or a list of `name`, `dsn`, `slots`.
    Raises `UsageError` (`invalid_address`).
    """
    text = os.environ.get("SAGABUS_OUTBOXES")
    if not text:
        return None
    try:
        told = json.loads(text)
        pairs = told.items() if isinstance(told, dict) else [(e["name"], e["dsn"]) for e in told]
        found = {str(name): dsn for name, dsn in pairs}
    except (ValueError, TypeError, KeyError) as cause:
        raise UsageError(
            "invalid_address", 'SAGABUS_OUTBOXES must be JSON: {"orders": "postgresql://..."}'
        ) from cause
    if not all(isinstance(dsn, str) for dsn in found.values()):
        raise UsageError("invalid_address", "SAGABUS_OUTBOXES: every DSN must be a text")
    return {name: checked_dsn(dsn, f"SAGABUS_OUTBOXES: {name}") for name, dsn in found.items()}
