"""What the audience sees: on a terminal in colour with a bar, elsewhere plain lines."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

__all__ = ["Stage"]

_WIDTH = 110
_LABEL = 34
_COLOURS = {
    "●": "bold",
    "→": "cyan",
    "←": "green",
    "■": "bold magenta",
    "↩": "yellow",
    "↻": "yellow",
    "≡": "yellow",
    "⏱": "red",
    "!": "bold red",
}


class Stage:
    """Prints the story as it goes; `silent` for programs that want the document only."""

    def __init__(self, *, silent: bool = False) -> None:
        self._begun = time.monotonic()
        out = sys.stderr if silent else sys.stdout
        is_terminal = out.isatty()
        self._console = Console(
            file=out, width=None if is_terminal else _WIDTH, quiet=silent, highlight=False
        )

    @property
    def elapsed_s(self) -> float:
        """Seconds since the curtain rose."""
        return time.monotonic() - self._begun

    def title(self, text: str) -> None:
        """Print a headline."""
        self._console.print()
        self._console.rule(Text(text, "bold"), align="left", characters="─")

    def say(self, text: str, style: str = "") -> None:
        """Print one line."""
        self._console.print(Text(text, style))

    @contextlib.contextmanager
    def step(self, label: str) -> Iterator[Callable[[str], None]]:
        """Print a step with the seconds that it took; the block may say more about its result."""
        begun = time.monotonic()
        told: list[str] = []
        yield told.append
        line = Text("✓ ", "green").append(f"{label:<{_LABEL}}", "default")
        line.append(f"{time.monotonic() - begun:6.1f} s", "dim")
        line.append(f"   {'; '.join(told)}", "dim")
        self._console.print(line)

    def verdict(self, *, good: bool, text: str) -> None:
        """Print a judgement."""
        self._console.print(
            Text("✓ " if good else "✗ ", "bold green" if good else "bold red") + text
        )

    def table(self, columns: list[str], rows: list[tuple[str, ...]], numbers: int) -> None:
        """Print a table whose last `numbers` columns are flush right."""
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for place, column in enumerate(columns):
            right = place >= len(columns) - numbers
            table.add_column(column, justify="right" if right else "left")
        for row in rows:
            table.add_row(*(Text(cell, _style_of(cell)) for cell in row))
        self._console.print(table)

    def story(self, page: str) -> None:
        """Print a page of `sagabus show`, coloured by the marks of its lines."""
        for line in page.splitlines():
            words = line.split(maxsplit=2)
            mark = words[1] if len(words) > 1 else ""
            text = Text(line, _COLOURS.get(mark, ""))
            self._console.print(text, no_wrap=True, overflow="ellipsis")

    @contextlib.contextmanager
    def progress(self, total: int) -> Iterator[Callable[[int], None]]:
        """Show how far it is: the block is given a function that takes how many are done."""
        if self._console.quiet or not self._console.is_terminal:
            yield self._milestones(total)
            return
        columns = ("  orders ended", BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("orders", total=total)
            yield lambda done: bar.update(task, completed=done)

    def _milestones(self, total: int) -> Callable[[int], None]:
        marks = {max(1, total * part // 4): part for part in (1, 2, 3, 4)}

        def tell(done: int) -> None:
            if done in marks:
                self.say(f"  {done} of {total} orders have ended")

        return tell


def _style_of(cell: str) -> str:
    return {"COMPLETED": "green", "COMPENSATED": "yellow"}.get(cell, "")
