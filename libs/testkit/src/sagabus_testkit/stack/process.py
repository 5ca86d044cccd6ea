"""A server as a process of ours, under a guard that ends it when we end, however we end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.waiting import Probe, wait_until

__all__ = ["ProcessControl", "ServerCommand", "dies_with_guard"]

_GUARD = Path(__file__).with_name("guard.py")
_START_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """How to run a server: its process id and log land in `directory` as `name`.pid and .log."""

    name: str
    argv: tuple[str, ...]
    directory: Path
    answers: Probe
    stop_signal: str = "SIGTERM"
    grace_s: float = 15.0
    environment: dict[str, str] = field(default_factory=dict)


def dies_with_guard(stop_signal: str) -> tuple[str, ...]:
    """Return the command prefix that makes the kernel stop a server whose guard was killed.

    Belongs right before the server: a change of user on the way would clear the setting.
    """
    setpriv = shutil.which("setpriv")
    return (setpriv, "--pdeathsig", stop_signal.removeprefix("SIG")) if setpriv else ()


class ProcessControl:
    """Starts, stops and hurts one server process; see `Control` for the promises.

    `lock` is an open file whose lock lasts until the last guard is gone: a killed owner's stack
    cannot be started again before its servers have stopped.
    """

    kind = "process"

    def __init__(self, command: ServerCommand, lock: int | None = None) -> None:
        self._command = command
        self._lock = lock
        self._guard: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        """The file that gathers what the server wrote, over all its starts."""
        return self._command.directory / f"{self._command.name}.log"

    @property
    def pid(self) -> int | None:
        """The id of the server's process, or None while it does not run."""
        if self._guard is None or self._guard.poll() is not None:
            return None
        with contextlib.suppress(OSError, ValueError):
            return int(self._pid_file.read_text())
        return None

    @property
    def is_running(self) -> bool:
        """Whether the server, or the guard that is about to start it, runs."""
        return self._guard is not None and self._guard.poll() is None

    @property
    def is_answering(self) -> bool:
        """Whether the server answers its probe right now."""
        return self._command.answers()

    @property
    def _pid_file(self) -> Path:
        return self._command.directory / f"{self._command.name}.pid"

    def spawn(self) -> None:
        """Begin to start, unless it runs already."""
        if self._guard is not None and self._guard.poll() is None:
            return
        self._pid_file.unlink(missing_ok=True)
        guard = (sys.executable, "-I", "-S", str(_GUARD), str(os.getpid()))
        how = (self._command.stop_signal, str(self._command.grace_s), str(self._pid_file), "--")
        with self.log_path.open("ab") as log:
            self._guard = subprocess.Popen(  # noqa: S603 - a server that this package found
                [*guard, *how, *self._command.argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Its own session: Ctrl-C reaches us, and we stop the servers in good order.
                start_new_session=True,
                pass_fds=() if self._lock is None else (self._lock,),
                env={**os.environ, **self._command.environment},
            )

    def wait_ready(self) -> None:
        """Wait until the server answers.

        Raises `StackError` (`server_exited`, `server_not_ready`) with the last words of its log.
        """
        answered = False

        def settled() -> bool:
            nonlocal answered
            answered = self._command.answers()
            return answered or self._guard is None or self._guard.poll() is not None

        settled_in_time = wait_until(settled, within_s=_START_WITHIN_S)
        if answered and self._guard is not None and self._guard.poll() is None:
            return
        code = "server_exited" if settled_in_time else "server_not_ready"
        words = self._last_words()
        self.kill()
        raise StackError(
            code, f"{self._command.name} did not start; the end of {self.log_path}: {words}"
        )

    def start(self) -> None:
        """Start and wait until the server answers; nothing happens if it runs already."""
        self.spawn()
        self.wait_ready()

    def stop(self, signal_name: str | None = None) -> None:
        """Stop in good order and wait: by the server's own signal, or by the named one."""
        self.begin_stop(signal_name)
        self._reap()

    def begin_stop(self, signal_name: str | None = None) -> None:
        """Ask the server to stop, without waiting."""
        if self._guard is None:
            return
        if signal_name is not None:
            self._signal(signal.Signals[signal_name])
        elif self._guard.stdin is not None:
            self._guard.stdin.close()

    def kill(self) -> None:
        """End the server and its children with SIGKILL, as a crash of the machine would."""
        pid = self.pid
        if pid is not None:
            victims = [pid, *_children(pid)]
            for victim in victims:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGKILL)
            # Orphaned children of a dead Postgres hold its shared memory: see them gone.
            wait_until(lambda: not any(map(_is_running, victims[1:])), within_s=10)
        self._reap()

    def pause(self) -> None:
        """Freeze the server (SIGSTOP) and wait until each of its threads stands still.

        The signal itself returns at once: on a busy machine a thread could still answer.
        """
        self._signal(signal.SIGSTOP)
        pid = self.pid
        if pid is not None:
            wait_until(lambda: all(state in "TtZX" for state in _thread_states(pid)), within_s=5)

    def resume(self) -> None:
        """Thaw the server (SIGCONT)."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        pid = self.pid
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _reap(self) -> None:
        guard, self._guard = self._guard, None
        if guard is None:
            return
        try:
            guard.wait(self._command.grace_s + 5)
        except subprocess.TimeoutExpired:
            guard.terminate()
            guard.wait(self._command.grace_s + 5)
        finally:
            if guard.stdin is not None:
                guard.stdin.close()
        self._pid_file.unlink(missing_ok=True)

    def _last_words(self) -> str:
        with contextlib.suppress(OSError):
            lines = self.log_path.read_text(errors="replace").strip().splitlines()
            return " / ".join(lines[-5:]) or "(nothing)"
        return "(no log)"


def _children(pid: int) -> list[int]:
    with contextlib.suppress(OSError):
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def _is_running(pid: int) -> bool:
    with contextlib.suppress(OSError):
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state not in {"Z", "X"}
    return False


def _thread_states(pid: int) -> list[str]:
    """Return the state letter of each thread (proc_pid_stat(5)); none where there is no /proc."""
    states: list[str] = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(OSError):
            # The name before it stands in parentheses and may itself hold spaces.
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return states
