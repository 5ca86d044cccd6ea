"""Run a helper program to its end and keep what it said."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Outcome", "run"]

Outcome = subprocess.CompletedProcess[str]
CANNOT_RUN = 127


def run(
    argv: Sequence[str | Path],
    *,
    directory: Path = Path("/"),
    environment: Mapping[str, str] | None = None,
    within_s: float = 60.0,
) -> Outcome:
    """Run a program without input; a program that is missing or takes too long is a failure too."""
    try:
        return subprocess.run(  # noqa: S603 - programs that this package found, no shell
            argv,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=within_s,
            env={**os.environ, **(environment or {})},
        )
    except OSError as cause:
        return Outcome(argv, CANNOT_RUN, "", str(cause))
    except subprocess.TimeoutExpired:
        return Outcome(argv, CANNOT_RUN, "", f"no end after {within_s:g} s")
