"""The options of the command, as one value."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, TypeAlias, get_type_hints

import typer

from sagabus_conformance.profile import TENANT

__all__ = ["Options", "with_options"]

File: TypeAlias = Path | None
Command: TypeAlias = str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line says about the step, the hooks and the patience."""

    participant: Annotated[str, typer.Option(help="Name of the participant.")]
    step: Annotated[str, typer.Option(help="One of its steps.")]
    payload: Annotated[
        Path,
        typer.Option(help="JSON that EXECUTE accepts; ${business_key} becomes the saga's key."),
    ]
    schema: Annotated[
        str | None, typer.Option(help="Schema id of the payload; else PARTICIPANT.STEP.v1.")
    ] = None
    rejected_payload: Annotated[
        File, typer.Option(help="JSON that is refused for business reasons.")
    ] = None
    unknown_payload: Annotated[
        File, typer.Option(help="JSON whose outcome is UNKNOWN at first.")
    ] = None
    invalid_payload: Annotated[
        File, typer.Option(help="JSON that breaks the payload contract.")
    ] = None
    definition: Annotated[
        File, typer.Option(help="Workflow definition with the step: says what the step can do.")
    ] = None
    cancellable: Annotated[bool, typer.Option("--cancellable", help="Knows CANCEL.")] = False
    compensatable: Annotated[bool, typer.Option("--compensatable", help="Knows COMPENSATE.")] = (
        False
    )
    retriable: Annotated[bool, typer.Option("--retriable", help="Has to succeed in the end.")] = (
        False
    )
    unknown_allowed: Annotated[
        bool, typer.Option("--unknown-allowed", help="EXECUTE may answer UNKNOWN.")
    ] = False
    rejects_invalid: Annotated[
        bool, typer.Option("--rejects-invalid", help="Broken payloads are REJECTED, not HALTED.")
    ] = False
    tenant: Annotated[str, typer.Option(help="Tenant of the suite's sagas.")] = TENANT
    effects_command: Annotated[
        Command, typer.Option(help='Shell command that prints {"<effect id>": <times applied>}.')
    ] = None
    pid_file: Annotated[
        File, typer.Option(help="File with the participant's process id, for kill -9.")
    ] = None
    kill_command: Annotated[
        Command, typer.Option(help="Shell command that kills it, instead of --pid-file.")
    ] = None
    restart_command: Annotated[
        Command,
        typer.Option(help="Shell command that starts it in the background; else a supervisor."),
    ] = None
    within: Annotated[float, typer.Option(min=1, help="Seconds an answer may take.")] = 30.0
    recovery: Annotated[float, typer.Option(min=1, help="Seconds more after a kill.")] = 90.0
    batch: Annotated[int, typer.Option(min=2, help="Commands around each kill.")] = 40
    kills: Annotated[int, typer.Option(min=1, help="How often to kill.")] = 2


def with_options(function: Callable[[Options], None]) -> Callable[..., None]:
    """Return a function whose parameters are the fields of `Options`, for typer to read."""

    def command(**given: object) -> None:
        function(Options(**given))  # type: ignore[arg-type]  # typer has checked them

    hints = get_type_hints(Options, include_extras=True)
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(Options)
    ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # PEP 362
    command.__annotations__ = hints
    command.__doc__ = function.__doc__
    command.__name__ = function.__name__
    return command
