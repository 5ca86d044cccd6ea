"""Commands that the user gives: count effects, kill, restart. Each is bounded."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sagabus_conformance.errors import HookFailed
from sagabus_messages import MessageError, parse_strict

__all__ = ["CommandKiller", "CommandProbe"]

HOOK_S: Final = 60.0
POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class CommandProbe:
    """A shell command that prints `{"<effect id>": <times applied>, ...}`."""

    command: str

    async def count(self) -> Mapping[str, int]:
        """Run the command. Raises `HookFailed`."""
        said = await _run(self.command, "--effects-command")
        try:
            counts = parse_strict(said)
        except MessageError as error:
            raise HookFailed("hook_failed", f"--effects-command: {error.detail}") from error
        if not isinstance(counts, dict):
            raise HookFailed("hook_failed", "--effects-command must print one JSON object")
        found: dict[str, int] = {}
        for effect, times in counts.items():
            if not isinstance(times, int) or isinstance(times, bool) or times < 0:
                raise HookFailed(
                    "hook_failed", f"--effects-command: {effect!a} needs a count, 0 or more"
                )
            found[effect.lower()] = times
        return found


@dataclass(frozen=True, slots=True)
class CommandKiller:
    """Kills by pid file or command; restarts by command, or leaves that to a supervisor.

    The pid file is read at each kill. A command has to return: what it starts must go on in the
    background.
    """

    pid_file: Path | None = None
    kill_command: str | None = None
    restart_command: str | None = None

    async def kill(self) -> None:
        """End the process at once. Raises `HookFailed`."""
        if self.kill_command is not None:
            await _run(self.kill_command, "--kill-command")
        elif self.pid_file is not None:
            await _kill(self.pid_file)

    async def restart(self) -> None:
        """Begin to start it again. Raises `HookFailed`."""
        if self.restart_command is not None:
            await _run(self.restart_command, "--restart-command")


async def _kill(pid_file: Path) -> None:
    try:
        pid = _pid_in(pid_file)
        os.kill(pid, signal.SIGKILL)
    except (OSError, ValueError) as cause:
        raise HookFailed("hook_failed", f"--pid-file {pid_file}: {cause}") from cause
    for _ in range(int(HOOK_S / POLL_S)):
        if not _is_alive(pid):
            return
        await asyncio.sleep(POLL_S)
    raise HookFailed("hook_failed", f"process {pid} of {pid_file} does not die")


def _pid_in(pid_file: Path) -> int:
    return int(pid_file.read_text())


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return not Path("/proc/self").exists()  # without /proc the signal alone has to tell


async def _run(command: str, option: str) -> bytes:
    # What a restarted process inherits must not keep us waiting: only stdout of a probe is read.
    reads = option == "--effects-command"
    out = asyncio.subprocess.PIPE if reads else asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_shell(
        command, stdin=asyncio.subprocess.DEVNULL, stdout=out, start_new_session=True
    )
    try:
        async with asyncio.timeout(HOOK_S):
            said, _ = await process.communicate()
    except TimeoutError as cause:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise HookFailed("hook_failed", f"{option} did not return in {HOOK_S:g} s") from cause
    if process.returncode != 0:
        raise HookFailed("hook_failed", f"{option} ended with {process.returncode}")
    return said or b""
