"""Commands of other packages, found through the entry point group `sagabus.commands`.

    [project.entry-points."sagabus.commands"]
    saga = "sagabus_client.commands:app"        # a typer.Typer

A package is imported only when its command runs, or when the help lists it. Its commands speak
through `sagabus_cli.output.current_output()` and raise `SagabusError`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core
import typer.main

from sagabus_cli.errors import Refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "JSON_HELP", "CommandGroup"]

GROUP = "sagabus.commands"
JSON_HELP = "Print one JSON document; accepted at any place."


class CommandGroup(typer.core.TyperGroup):
    """The command `sagabus`: its own commands, then those of the packages that are installed."""

    @cached_property
    def _plugins(self) -> dict[str, EntryPoint]:
        from importlib.metadata import entry_points  # noqa: PLC0415 - slow, seldom needed

        return {point.name: point for point in entry_points(group=GROUP)}

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer brings its own click
        """Return the names of all commands, our own first."""
        own = super().list_commands(ctx)
        return own + sorted(set(self._plugins) - set(own))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401 - as above
        """Return a command, importing the package that brings it."""
        own = super().get_command(ctx, cmd_name)
        if own is None and cmd_name in self._plugins:
            own = _load(self._plugins[cmd_name])
        return None if own is None else _complete(own)


def _load(point: EntryPoint) -> Any:  # noqa: ANN401 - typer brings its own click
    try:
        target = point.load()
    except Exception as cause:
        raise Refused(
            "command_unavailable",
            f"the command {point.name!r} of {point.value} cannot be loaded: {cause}",
        ) from cause
    command = typer.main.get_command(target) if isinstance(target, typer.Typer) else target
    command.name = point.name
    return command


def _complete(command: Any) -> Any:  # noqa: ANN401 - typer brings its own click
    """Let the help of every command name `--json`, and none install a completion of its own."""
    subcommands = getattr(command, "commands", None)
    own = [param for param in command.params if not str(param.name).endswith("_completion")]
    if subcommands is None and not any("--json" in param.opts for param in own):
        own.append(_json_option())
    for each in (subcommands or {}).values():
        _complete(each)
    command.params = own
    return command


def _json_option() -> Any:  # noqa: ANN401 - as above
    """Return an option to be seen: `app` has taken it to the front before it is parsed."""
    template = typer.Typer(add_completion=False)

    @template.command()
    def _(as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False) -> None:
        del as_json

    found = typer.main.get_command(template).params[0]
    found.expose_value = False
    return found
