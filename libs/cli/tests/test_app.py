"""The command line without any server: output, errors, exit codes, lazy loading."""

import json
import signal
import subprocess
import sys
from importlib.metadata import EntryPoint

import pytest
import typer

from sagabus_cli import app, commands
from sagabus_cli.connection import Connection
from sagabus_cli.errors import FailedOutcome, NotReachable, Refused, UsageError, exit_code_of
from sagabus_cli.output import current_output
from sagabus_cli.progress import Progress
from sagabus_core.errors import InvalidValue, SagabusError
from sagabus_testkit import NotControllable, StackError

PLUGIN = typer.Typer()


@PLUGIN.command()
def greet(name: str = "you") -> None:
    """Greet."""
    if name == "nobody":
        raise Refused("nobody_there", "there is nobody to greet")
    if name == "bug":
        raise ZeroDivisionError("by zero")
    if name == "ctrl-c":
        raise KeyboardInterrupt
    current_output().tell({"hello": name}, f"hello {name}")


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [
        EntryPoint("greet", f"{__name__}:PLUGIN", commands.GROUP),
        EntryPoint("broken", "sagabus_no_such_package:app", commands.GROUP),
    ]
    found = {point.name: point for point in points}
    monkeypatch.setattr(commands.CommandGroup, "_plugins", found)
    monkeypatch.setattr(EntryPoint, "load", _load)


def _load(point: EntryPoint) -> object:
    if point.name == "greet":
        return PLUGIN
    raise ImportError("No module named 'sagabus_no_such_package'")


@pytest.mark.parametrize("line", [["--json", "greet"], ["greet", "--json"]])
def test_json_is_accepted_at_any_place(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(line) == 0
    assert json.loads(capsys.readouterr().out) == {"hello": "you"}


def test_people_read_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["greet", "--name", "Ada"]) == 0
    assert capsys.readouterr().out == "hello Ada\n"


@pytest.mark.parametrize(
    ("line", "code", "sentence"),
    [
        (["greet", "--name", "nobody"], 4, "there is nobody to greet [nobody_there]"),
        (["greet", "--name", "bug"], 5, "ZeroDivisionError: by zero [internal_error]"),
        (["greet", "--nonsense"], 2, "No such option: --nonsense"),
        (["nonsense"], 2, "No such command 'nonsense'"),
        (["broken"], 4, "the command 'broken' of sagabus_no_such_package:app cannot be loaded"),
    ],
)
def test_an_error_is_one_sentence_and_an_exit_code(
    line: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(line) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert "Traceback" not in said.err
    assert len(said.err.splitlines()) == 1


def test_an_error_is_json_where_json_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["greet", "--name", "nobody", "--json"]) == 4
    said = capsys.readouterr()
    assert json.loads(said.out)["error"]["code"] == "nobody_there"
    assert said.err == ""


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["greet", "--name", "bug", "--debug"]) == 5
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_is_130(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["greet", "--name", "ctrl-c"]) == 130


def test_help_lists_own_commands_and_says_what_exit_codes_mean(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands.CommandGroup, "_plugins", {})
    assert app.run(["--help"]) == 0
    said = capsys.readouterr().out
    for word in ("up", "down", "check-stack", "--json", "Exit codes", "--install-completion"):
        assert word in said
    for code in ("1 bad outcome", "3 not", "6 not permitted", "130 interrupted", "141 whoever"):
        assert code in " ".join(said.split())


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FailedOutcome("a", "b"), 1),
        (UsageError("a", "b"), 2),
        (NotReachable("a", "b"), 3),
        (Refused("a", "b"), 4),
        (InvalidValue("a", "b"), 2),
        (SagabusError("a", "b"), 4),
        (StackError("java_missing", "b"), 3),
        (StackError("stack_busy", "b"), 4),
        (StackError("invalid_stack_name", "b"), 2),
        (NotControllable("not_controllable", "b"), 4),
    ],
)
def test_exit_codes_tell_kinds_of_failure_apart(error: SagabusError, code: int) -> None:
    assert exit_code_of(error) == code


def test_a_bad_stack_name_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.run(["down", "--name", "../x"]) == 2
    assert "invalid_stack_name" in capsys.readouterr().err


def test_the_start_loads_no_driver_and_no_table() -> None:
    script = (
        "import sys, sagabus_cli.app as app; app.build();"
        "print([m for m in ('asyncpg', 'aiokafka', 'rich.table', 'sagabus_testkit', 'asyncio')"
        " if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_ctrl_c_while_the_command_is_still_imported_leaves_no_traceback() -> None:
    script = (
        "import signal, sys, importlib.abc, os\n"
        "class Interrupted(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'sagabus_cli': os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "import sagabus_command\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "sagabus_command.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


def test_a_reader_that_has_gone_hears_no_complaint() -> None:
    line = [sys.executable, "-m", "sagabus_cli", "up", "--help"]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    _, said = process.communicate()
    assert (process.returncode, said) == (141, "")


def test_long_work_tells_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    now = 0.0
    progress = Progress("sagas", clock=lambda: now)
    progress.advance(200)
    assert capsys.readouterr().err == ""
    now = 2.0
    progress.advance(200)
    progress.advance()
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "400 sagas so far\n")


def test_a_table_in_a_pipe_has_no_colours(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    current_output().table({}, ("status", "id"), [("RUNNING", "a"), ("DONE", "b")])
    said = capsys.readouterr().out
    assert "\x1b" not in said
    first, second = (line for line in said.splitlines() if "RUNNING" in line or "DONE" in line)
    assert first.rindex("a") == second.rindex("b")


def test_a_table_keeps_ids_whole_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    saga_id = "33a83fea-d2f9-5117-baa4-3faea543da8d"
    current_output().table({}, ("status", "what to do", "id"), [("RUNNING", "wait " * 9, saga_id)])
    said = capsys.readouterr().out
    assert saga_id in said
    assert "RUNNING" in said


def test_a_table_of_nothing_is_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    current_output().table({}, ("status", "id"), [], empty="no saga")
    assert capsys.readouterr().out == "no saga\n"


def test_an_address_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SAGABUS_POSTGRES", "nonsense")
    with pytest.raises(UsageError, match="SAGABUS_POSTGRES"):
        _ = Connection().database
