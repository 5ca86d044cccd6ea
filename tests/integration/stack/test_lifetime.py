"""A stack lives exactly as long as its owner, and two never meet."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack, StackError, eventually_sync
from sagabus_testkit.stack.home import is_owned
from sagabus_testkit.stack.probe import kafka_answers, postgres_answers

pytestmark = pytest.mark.stack

OWNER = """
import json, signal, sys, threading
from pathlib import Path
from sagabus_testkit import LocalStack
# Whoever runs the tests in the background has it ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
with LocalStack("owned", root=Path(sys.argv[1])) as stack:
    if sys.argv[2] == "both":
        stack.start()
    stack.postgres
    print("up", flush=True)
    if sys.argv[3] == "raise":
        raise RuntimeError("a test went wrong")
    threading.Event().wait()
"""


def running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    return False


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


Owner = subprocess.Popen[str]
Start = Callable[[str, str], tuple[Owner, list[int]]]


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Start]:
    """Start a process that owns a stack; returns it and every process that belongs to it."""
    owners: list[Owner] = []

    def start(servers: str, how: str) -> tuple[Owner, list[int]]:
        owner = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(tmp_path), servers, how],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        owners.append(owner)
        assert owner.stdout is not None
        assert owner.stdout.readline() == "up\n"
        return owner, descendants(owner.pid)

    yield start
    for owner in owners:
        if owner.stdout:
            owner.stdout.close()
        owner.kill()
        owner.wait()


def kill_owner(owner: Owner) -> None:
    os.kill(owner.pid, signal.SIGKILL)


def terminate_owner(owner: Owner) -> None:
    os.kill(owner.pid, signal.SIGTERM)


def press_ctrl_c(owner: Owner) -> None:
    os.killpg(owner.pid, signal.SIGINT)


def kill_guards_and_owner(owner: Owner) -> None:
    guards = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()
    for guard in guards:
        os.kill(int(guard), signal.SIGKILL)
    os.kill(owner.pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("end", "servers"),
    [
        (kill_owner, "both"),
        (terminate_owner, "postgres"),
        (press_ctrl_c, "postgres"),
        (kill_guards_and_owner, "both"),
    ],
)
def test_however_the_owner_ends_no_process_is_left(
    end: Callable[[Owner], None], servers: str, own: Start, tmp_path: Path
) -> None:
    owner, processes = own(servers, "wait")
    assert len(processes) >= 7, "the guard, the postmaster and its five helpers"
    end(owner)
    owner.wait(30)
    eventually_sync(lambda: not any(map(running, processes)), within=20)
    assert not is_owned(tmp_path / "owned")


def test_after_an_exception_neither_process_nor_directory_is_left(
    own: Start, tmp_path: Path
) -> None:
    owner, processes = own("postgres", "raise")
    owner.wait(30)
    assert not any(map(running, processes))
    assert not (tmp_path / "owned").exists()


def test_two_stacks_side_by_side(stack: LocalStack, tmp_path: Path) -> None:
    with LocalStack("second", root=tmp_path) as second:
        second.start()
        assert stack.postgres.port != second.postgres.port
        second.postgres.create_database("only_here")
        assert second.postgres.ask("show port") == str(second.postgres.port)
        names = "select string_agg(datname, ' ') from pg_database"
        assert "only_here" in str(second.postgres.ask(names))
        assert "only_here" not in str(stack.postgres.ask(names))
        port = int(second.kafka.bootstrap.rpartition(":")[2])
    assert not kafka_answers("127.0.0.1", port)
    assert kafka_answers("127.0.0.1", int(stack.kafka.bootstrap.rpartition(":")[2]))
    assert postgres_answers("127.0.0.1", stack.postgres.port, "sagabus")


def test_a_kept_stack_finds_its_data_again(tmp_path: Path) -> None:
    for count in range(2):
        with LocalStack("kept", root=tmp_path, keep=True) as kept:
            query = "select count(*) from pg_database where datname = 'mine'"
            assert kept.postgres.ask(query) == count
            if count == 0:
                kept.postgres.create_database("mine")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    settings = {"max_connections": "none"}
    with (
        LocalStack("bad", root=tmp_path, postgres_settings=settings) as bad,
        pytest.raises(StackError, match=r"server_exited.*max_connections"),
    ):
        _ = bad.postgres
