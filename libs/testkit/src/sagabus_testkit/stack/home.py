"""The directory of one stack: one owner at a time, gone with it unless it is to be kept."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from pathlib import Path

from sagabus_testkit.stack.errors import StackError
from sagabus_testkit.stack.ports import ReservedPorts
from sagabus_testkit.stack.waiting import wait_until

__all__ = [
    "OUTSIDE_LINK",
    "StackHome",
    "directory_of",
    "is_owned",
    "owner_of",
    "remove_directory",
    "stacks_root",
]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,40}")
_EPHEMERAL = re.compile(r".+-\d+")
_LOCK = "lock"
OUTSIDE_LINK = "postgres.link"
"""Points to the data of a Postgres that runs as another user and cannot enter this directory."""
_FORMER_OWNER_GONE_WITHIN_S = 25.0


def stacks_root() -> Path:
    """Return `.stack` of the project around the working directory, or of the working directory."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / ".git").exists() or (folder / ".stack").is_dir():
            return folder / ".stack"
    return here / ".stack"


def directory_of(name: str, root: Path | None = None) -> Path:
    """Return where the stack of that name lives, whether it exists or not.

    Raises `StackError` (`invalid_stack_name`) for a name that makes no good folder.
    """
    if _NAME.fullmatch(name) is None:
        raise StackError("invalid_stack_name", f"stack {name!r} must match {_NAME.pattern}")
    return (root or stacks_root()).absolute() / name


class StackHome:
    """`.stack/<name>/`, locked for one owner, with the ports that its servers use.

    Opening waits for the servers of a killed owner to end, and raises `StackError`: `stack_busy`
    if the stack runs, `invalid_stack_name`.
    """

    def __init__(self, name: str, *, root: Path | None = None, keep: bool = False) -> None:
        self.name = name
        self.directory = directory_of(name, root)
        self.ports = ReservedPorts()
        self._keep = keep
        if not keep:
            _sweep(self.directory.parent)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.lock = os.open(self.directory / _LOCK, os.O_CREAT | os.O_RDWR, 0o600)
        if not wait_until(lambda: _lock(self.lock), within_s=_patience(self.directory)):
            os.close(self.lock)
            raise StackError(
                "stack_busy",
                f"the stack {name!r} in {self.directory} is in use: "
                "stop it (make down), or choose another name",
            )
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, str(os.getpid()).encode(), 0)

    def close(self) -> None:
        """Free the ports and the name; remove the directory unless it is kept."""
        self.ports.release()
        if not self._keep:
            remove_directory(self.directory)
        os.close(self.lock)


def is_owned(directory: Path) -> bool:
    """Return whether somebody runs the stack of this directory right now."""
    try:
        lock = os.open(directory / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _lock(lock)
    finally:
        os.close(lock)


def owner_of(directory: Path) -> int | None:
    """Return the id of the process that runs, or last ran, the stack of this directory."""
    with contextlib.suppress(OSError, ValueError):
        return int((directory / _LOCK).read_text())
    return None


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _patience(directory: Path) -> float:
    """How long to wait for the lock: a living owner keeps it, guards of a dead one soon let go."""
    owner = owner_of(directory)
    return 1.0 if owner is not None and _is_alive(owner) else _FORMER_OWNER_GONE_WITHIN_S


def _sweep(base: Path) -> None:
    """Remove what killed sessions left behind: folders named after a process that is dead."""
    for folder in base.glob("*/"):
        owner = owner_of(folder) if _EPHEMERAL.fullmatch(folder.name) else None
        if owner is not None and not _is_alive(owner) and not is_owned(folder):
            remove_directory(folder)


def remove_directory(directory: Path) -> None:
    """Remove a stack's directory, and what it keeps elsewhere."""
    outside = directory / OUTSIDE_LINK
    if outside.is_symlink():
        shutil.rmtree(outside.resolve(), ignore_errors=True)
    shutil.rmtree(directory, ignore_errors=True)
