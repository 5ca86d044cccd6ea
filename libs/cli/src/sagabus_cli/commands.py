"""Commands of other packages, found through the entry point group `sagabus.commands`.

    [project.entry-points."sagabus.commands"]
    saga = "sagabus_client.commands:app"        # a typer.Typer

A package is imported only when its command runs, or when the help lists it. Its commands speak
through `sagabus_cli.output.current_output()` and raise `SagabusError`.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import typer
import typer.core
import typer.main

from sagabus_cli.errors import Refused

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["GROUP", "CommandGroup"]

GROUP = "sagabus.commands"


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
        if own is not None or cmd_name not in self._plugins:
            return own
        return _load(self._plugins[cmd_name])


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
