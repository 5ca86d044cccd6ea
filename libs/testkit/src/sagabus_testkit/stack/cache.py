"""What is expensive to make is made once, in a cache that several processes may share.

An entry is a directory that exists whole or not at all: it is built beside its place under a file
lock and renamed. A build that is killed leaves a partial directory that the next one removes.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from sagabus_testkit.stack.errors import StackError

__all__ = ["build_once", "cache_root"]


def cache_root() -> Path:
    """Return the cache directory: `SAGABUS_CACHE`, else `sagabus` in the user's cache folder."""
    named = os.environ.get("SAGABUS_CACHE")
    if named:
        return Path(named).absolute()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "sagabus"


def build_once(target: Path, build: Callable[[Path], None]) -> Path:
    """Return `target`, calling `build` on an empty directory if it does not exist yet.

    Safe in several processes at once: one builds, the others wait. Raises `StackError`
    (`cache_unwritable`) if the cache cannot be written, or whatever `build` raises.
    """
    if target.is_dir():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = (target.parent / f".{target.name}.lock").open("w")
    except OSError as cause:
        raise StackError(
            "cache_unwritable",
            f"the cache {target.parent} cannot be written ({cause.strerror}): "
            "set SAGABUS_CACHE to a directory of yours",
        ) from cause
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _build(target, build)
    return target


def _build(target: Path, build: Callable[[Path], None]) -> None:
    prefix = f".{target.name}.partial-"
    for leftover in target.parent.glob(f"{prefix}*"):
        shutil.rmtree(leftover, ignore_errors=True)
    partial = Path(tempfile.mkdtemp(prefix=prefix, dir=target.parent))
    try:
        build(partial)
        partial.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
