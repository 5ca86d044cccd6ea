"""What a command says: one JSON document for programs, or text and tables for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass

import typer

from sagabus_core.errors import SagabusError

__all__ = ["Output", "choose_output", "current_output"]

_WIDE = 240
"""Without a terminal nobody knows the width: what programs read is not folded."""
_FOLDS_BEYOND = 40
_CLEAR = "\x1b[H\x1b[2J"


@dataclass(frozen=True, slots=True)
class Output:
    """How this run of the command speaks; chosen by the global options."""

    as_json: bool = False
    debug: bool = False
    watching: bool = False
    """Results follow one another: each is a line for programs, a new page for people."""

    def tell(self, document: Mapping[str, object], text: str) -> None:
        """Say the result: `document` to programs, `text` to people. Once per run or change."""
        if self.as_json:
            self._say(document)
            return
        self._turn_page()
        typer.echo(text)

    def table(
        self,
        document: Mapping[str, object],
        columns: Sequence[str],
        rows: Sequence[Sequence[str]],
        empty: str = "nothing to list",
    ) -> None:
        """Say the result as a table to people, as `document` to programs. Once per run or change.

        Without rows people read the sentence `empty`: a table of nothing tells nothing.
        """
        if self.as_json:
            self._say(document)
            return
        self._turn_page()
        if not rows:
            typer.echo(empty)
            return
        from rich import box  # noqa: PLC0415 - slow, and only people want it
        from rich.console import Console  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        table = Table(box=box.SIMPLE_HEAD)
        needed = 2
        for place, column in enumerate(columns):
            # Sentences fold; a key, a status or an id that is cut in two could not be copied.
            longest = max(len(column), *(len(row[place]) for row in rows), 0)
            width = min(longest, _FOLDS_BEYOND)
            table.add_column(column, min_width=width, no_wrap=width == longest)
            needed += width + 3
        for row in rows:
            table.add_row(*(Text(cell, overflow="fold") for cell in row))
        # Rich would end the process where the reader of a pipe has gone; `app` does that itself.
        console = Console(file=sys.stdout)
        console.width = max(console.width if console.is_terminal else _WIDE, needed)
        with console.capture() as drawn:
            console.print(table)
        typer.echo(drawn.get(), nl=False, color=console.is_terminal)

    def failure(self, error: SagabusError) -> None:
        """Say an error: as JSON in place of the result, or one line on standard error."""
        if self.as_json:
            problem = {"code": error.code, "detail": error.detail, "retryable": error.retryable}
            self._say({"error": problem})
        else:
            typer.echo(f"error: {error.detail} [{error.code}]", err=True)

    def note(self, text: str) -> None:
        """Tell people what is going on, on standard error; programs hear nothing."""
        if not self.as_json:
            typer.echo(text, err=True)

    def warn(self, text: str) -> None:
        """Tell people and programs alike, on standard error, what keeps the result waiting."""
        typer.echo(text, err=True)

    def _say(self, document: Mapping[str, object]) -> None:
        typer.echo(json.dumps(document, indent=None if self.watching else 2))

    def _turn_page(self) -> None:
        if self.watching and sys.stdout.isatty():
            typer.echo(_CLEAR, nl=False)
        elif self.watching:
            typer.echo()


def current_output() -> Output:
    """Return the output that the global options of this run chose."""
    return _CURRENT.get()


def choose_output(output: Output) -> None:
    """Let the commands of this run speak through `output`."""
    _CURRENT.set(output)


_CURRENT: ContextVar[Output] = ContextVar("sagabus_output", default=Output())  # noqa: B039 - frozen
