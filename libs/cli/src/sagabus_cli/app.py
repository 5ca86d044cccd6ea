"""The command `sagabus`: global options, errors as one sentence, exit codes by kind."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer.exceptions import TyperException

from sagabus_cli import stack
from sagabus_cli.commands import JSON_HELP, CommandGroup
from sagabus_cli.connection import Connection, choose_connection
from sagabus_cli.errors import (
    INTERNAL_ERROR,
    INTERRUPTED,
    READER_GONE,
    UsageError,
    exit_code_of,
)
from sagabus_cli.options import options_of
from sagabus_cli.output import Output, choose_output
from sagabus_cli.pipes import silence_closed
from sagabus_core.errors import SagabusError

__all__ = ["build", "main", "run"]

_GLOBAL = ("--json", "--debug", "--direct")
_WITH_VALUE = ("--api", "--api-key-file", "--kafka", "--postgres", "--topic-prefix")


def build() -> typer.Typer:
    """Return the whole command, without importing what its commands need."""
    app = typer.Typer(
        name="sagabus",
        cls=CommandGroup,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_globals)
    for command in (stack.up, stack.down, stack.check_stack):
        app.command()(command)
    return app


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - slow, and seldom asked for

        typer.echo(version("sagabus-cli"))
        raise typer.Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class _Globals:
    """The options of every command."""

    as_json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = (
        False
    )
    api: Annotated[str | None, typer.Option(help="Address of the HTTP API [SAGABUS_API].")] = None
    api_key_file: Annotated[
        Path | None,
        typer.Option(
            help="File with its key [SAGABUS_API_KEY_FILE; the key itself: SAGABUS_API_KEY, a "
            "bearer token: SAGABUS_API_TOKEN]."
        ),
    ] = None
    direct: Annotated[
        bool, typer.Option("--direct", help="Work on the database itself, not through the API.")
    ] = False
    kafka: Annotated[str | None, typer.Option(help="Bootstrap servers [SAGABUS_KAFKA].")] = None
    postgres: Annotated[
        str | None, typer.Option(help="DSN of the orchestrator's database [SAGABUS_POSTGRES].")
    ] = None
    topic_prefix: Annotated[
        str | None, typer.Option(help="Prefix of the topics [SAGABUS_TOPIC_PREFIX].")
    ] = None


@options_of(_Globals)
def _globals(asked: _Globals) -> None:
    """Durable sagas over Kafka and Postgres.

    Global options may stand at any place. Without addresses the local stack of `up` is used.
    Where an API is known, commands go through it, unless --direct or --postgres is given.

    Exit codes: 0 well, 1 bad outcome, 2 usage, 3 not reachable, 4 refused, 5 internal error,
    6 not permitted, 130 interrupted by Ctrl-C, 141 whoever read the output has gone.
    """
    choose_output(Output(as_json=asked.as_json, debug=asked.debug))
    servers = (asked.kafka, asked.postgres, asked.topic_prefix)
    choose_connection(Connection(*servers, asked.api, asked.api_key_file, direct=asked.direct))


def _hoist(arguments: Sequence[str]) -> list[str]:
    """Move the global options to the front, so that they may stand behind a sub-command."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    front: list[str] = []
    rest: list[str] = []
    words = iter(arguments[:end])
    for word in words:
        if word in _WITH_VALUE:
            front += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word in _GLOBAL or word.startswith(tuple(f"{name}=" for name in _WITH_VALUE)):
            front.append(word)
        else:
            rest.append(word)
    return [*front, *rest, *arguments[end:]]


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code; never raises, never shows a traceback."""
    ordered = _hoist(arguments)
    output = Output("--json" in ordered, "--debug" in ordered, watching="--watch" in ordered)
    try:
        return _run(ordered, output)
    except SystemExit:
        # How Rich, which draws the help, tells that nobody reads it: nothing else here raises it.
        return READER_GONE
    except BrokenPipeError as error:
        if silence_closed():
            return READER_GONE
        return _unforeseen(output, error)


def _run(ordered: Sequence[str], output: Output) -> int:
    try:
        outcome = build()(args=ordered, prog_name="sagabus", standalone_mode=False)
    except SagabusError as error:
        return _fail(output, error, exit_code_of(error))
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except TyperException as error:
        return _fail(output, UsageError("usage", error.format_message()), UsageError.exit_code)
    except BrokenPipeError:
        raise
    except Exception as error:  # noqa: BLE001 - the last line of defence before the shell
        return _unforeseen(output, error)
    return outcome if isinstance(outcome, int) else 0


def _unforeseen(output: Output, error: Exception) -> int:
    wrapped = SagabusError("internal_error", f"{type(error).__name__}: {error}")
    return _fail(output, wrapped, INTERNAL_ERROR)


def _fail(output: Output, error: SagabusError, code: int) -> int:
    if output.debug:
        traceback.print_exc()
    output.failure(error)
    return code


def main() -> None:
    """Run the command line of this process."""
    # What libraries log beside our one sentence would only confuse; services log for themselves.
    logging.getLogger().addHandler(logging.NullHandler())
    with _traced():
        code = run(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        silence_closed()
        code = READER_GONE
    sys.exit(code)


@contextmanager
def _traced() -> Iterator[None]:
    """Trace what a command does where the environment asks for traces."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        yield
        return
    from sagabus_runtime.telemetry import Tracing  # noqa: PLC0415 - slow, and seldom asked for

    try:
        tracing = Tracing.start("sagabus-cli")
    except SagabusError as error:
        sys.stderr.write(f"not traced. {error.code}: {error.detail}\n")
        tracing = Tracing()
    tracing.become_host()
    try:
        yield
    finally:
        tracing.close()
