"""A stack that outlives the command that started it: a supervising process owns it.

As a program: `python -m sagabus_testkit.stack.detached NAME ROOT` says one line of JSON once the
servers run, or what prevents them, and stops them on SIGTERM.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.home import directory_of, is_owned, owner_of, remove_directory
from sagabus_testkit.stack.local_stack import LocalStack
from sagabus_testkit.stack.record import (
    StackRecord,
    read_record,
    record_of,
    write_record,
)
from sagabus_testkit.stack.waiting import wait_until

__all__ = ["delete_data", "start_detached", "stop_detached"]

_STOPPED_WITHIN_S = 45.0
_LOG = "supervisor.log"


def start_detached(name: str, root: Path | None = None) -> StackRecord:
    """Start a stack that keeps its data, and return once it works; return a running one as it is.

    Raises `StackError`, as `LocalStack` does, or `supervisor_failed`.
    """
    running = read_record(name, root)
    if running is not None:
        return running
    directory = directory_of(name, root)
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / _LOG).open("ab") as log:
        supervisor = subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", "sagabus_testkit.stack.detached", name, str(directory.parent)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )
    try:
        said = supervisor.stdout.readline() if supervisor.stdout else b""
    except BaseException:
        supervisor.terminate()
        raise
    return _understand(said, directory / _LOG)


def _understand(said: bytes, log: Path) -> StackRecord:
    message: dict[str, Any] = json.loads(said) if said else {}
    if "stack" in message:
        return StackRecord(**message["stack"])
    if "error" in message:
        raise StackError(message["error"]["code"], message["error"]["detail"])
    raise StackError("supervisor_failed", f"the supervisor of the stack ended; see {log}")


def stop_detached(name: str, root: Path | None = None) -> bool:
    """Stop the stack of that name and wait; return whether there was one.

    Raises `StackError` (`stack_not_stopped`) if it is still there after 45 s.
    """
    directory = directory_of(name, root)
    owner = owner_of(directory)
    if owner is None or not is_owned(directory):
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(owner, signal.SIGTERM)
    if not wait_until(lambda: not is_owned(directory), within_s=_STOPPED_WITHIN_S):
        raise StackError(
            "stack_not_stopped",
            f"the stack {name!r} did not stop within {_STOPPED_WITHIN_S:g} s; see {directory}",
        )
    return True


def delete_data(name: str, root: Path | None = None) -> None:
    """Remove the directory of a stopped stack. Raises `StackError` (`stack_busy`)."""
    directory = directory_of(name, root)
    if not directory.exists():
        return
    if is_owned(directory):
        raise StackError("stack_busy", f"the stack {name!r} still runs: stop it first (make down)")
    remove_directory(directory)


def _supervise(name: str, root: Path) -> None:
    with LocalStack(name, root=root, keep=True) as stack:
        record = record_of(stack.start())
        path = write_record(record)
        try:
            _say({"stack": asdict(record)})
            while True:
                signal.pause()
        finally:
            path.unlink(missing_ok=True)


def _say(message: dict[str, object]) -> None:
    """Tell the waiting command, which may be gone, and stop listening to its terminal."""
    with contextlib.suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())


def _leave(*_: object) -> NoReturn:
    raise SystemExit(0)


def main() -> None:
    """Own a stack until SIGTERM."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    try:
        _supervise(sys.argv[1], Path(sys.argv[2]))
    except StackError as error:
        _say({"error": {"code": error.code, "detail": error.detail}})
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
