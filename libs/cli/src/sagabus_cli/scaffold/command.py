"""The commands `sagabus new` and `sagabus join`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sagabus_cli.output import current_output

__all__ = ["join_app", "new_app"]

new_app = typer.Typer(no_args_is_help=True, help="Write new projects.")
join_app = typer.Typer()


@new_app.callback()
def _new() -> None:
    """Keep `participant` a sub-command."""


@new_app.command()
def participant(
    name: Annotated[str, typer.Argument(help="Name of the participant: lower case, hyphens.")],
    folder: Annotated[
        Path, typer.Option("--dir", help="Where to make the project's directory.")
    ] = Path(),
) -> None:
    """Write the project of a participant: one local step, its workflow, tests that pass."""
    from sagabus_cli.scaffold.writing import write_participant  # noqa: PLC0415 - slow

    target = write_participant(name, folder)
    written = sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())
    text = "\n".join(
        [
            f"{target} is written: {len(written)} files",
            f"  cd {target} && pip install -e '.[test]' && pytest",
            f"  sagabus join {target}   # beside `sagabus up` and `sagabus services`",
        ]
    )
    current_output().tell({"directory": str(target), "files": written}, text)


@join_app.command()
def join(
    project: Annotated[Path, typer.Argument(help="Directory that `sagabus new` wrote.")] = Path(),
) -> None:
    """Run a participant's project on the stack of `sagabus up` until Ctrl-C.

    Makes its database, topics and tables, runs it with a relay for its outbox, and lets its
    workflows be started. `sagabus services` has to run beside it.
    """
    from sagabus_cli.scaffold.joining import run_joined  # noqa: PLC0415 - slow

    run_joined(project)
