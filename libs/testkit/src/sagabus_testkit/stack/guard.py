"""Run one server and make sure that it never outlives its owner. A script of its own, no imports.

    guard.py OWNER_PID SIGNAL GRACE_S PID_FILE -- COMMAND...

Stops COMMAND with SIGNAL, and with SIGKILL after GRACE_S seconds, as soon as the owner closes the
pipe on standard input (dying in any way closes it), is no longer the parent, or this process gets
TERM, INT or HUP. PID_FILE receives the id of the server. Ends with the exit code of the server.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

PARENT_CHECK_S = 1.0


def write_pid(path: str, pid: int) -> None:
    """Put the id where the owner looks for it, whole or not at all."""
    partial = Path(f"{path}.partial")
    partial.write_text(str(pid))
    partial.replace(path)


def owner_is_gone(owner: int, wakeups: int) -> bool:
    """Wait up to a second for news; true once the owner closed its pipe or died."""
    ready, _, _ = select.select([0, wakeups], [], [], PARENT_CHECK_S)
    if wakeups in ready:
        os.read(wakeups, 4096)
    if 0 in ready and not os.read(0, 4096):
        return True
    # A forked sibling of the owner may hold the pipe open: the parent's id tells the truth.
    return os.getppid() != owner


def supervise(owner: int, stop_signal: int, grace_s: float, pid_file: str) -> int:
    """Start the command that follows `--`, watch it and the owner, return its exit code."""
    wakeups, wakeups_in = os.pipe()
    os.set_blocking(wakeups_in, False)
    stops: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda received, _frame: stops.append(received))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeups_in, warn_on_full_buffer=False)
    command = sys.argv[sys.argv.index("--") + 1 :]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)  # noqa: S603 - from the owner
    write_pid(pid_file, server.pid)
    while server.poll() is None and not stops:
        if owner_is_gone(owner, wakeups):
            break
    if server.poll() is None:
        server.send_signal(stop_signal)
        server.send_signal(signal.SIGCONT)  # a frozen server would not hear the first one
        with contextlib.suppress(subprocess.TimeoutExpired):
            server.wait(grace_s)
    if server.poll() is None:
        server.kill()
    return server.wait()


if __name__ == "__main__":
    code = supervise(
        int(sys.argv[1]), signal.Signals[sys.argv[2]].value, float(sys.argv[3]), sys.argv[4]
    )
    sys.exit(code if code >= 0 else 128 - code)
