"""`sagabus up`, `check-stack` and `down`, as a person at a shell uses them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sagabus_testkit import eventually_sync
from sagabus_testkit.stack.home import is_owned

pytestmark = pytest.mark.stack


class Shell:
    """Runs the command in an empty project."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / ".stack").mkdir()

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "sagabus_cli", "--json", *words],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert done.stderr == ""
        said: dict[str, Any] = json.loads(done.stdout)
        return said


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    made = Shell(tmp_path)
    yield made
    made("down")


def checks(said: dict[str, Any]) -> dict[str, str]:
    return {check["name"]: check["state"] for check in said["checks"]}


def test_up_check_kill_up_down(shell: Shell) -> None:
    assert checks(shell("check-stack"))["stack dev"] == "absent"
    first = shell("up")
    record = shell.folder / ".stack/dev/stack.json"
    assert json.loads(record.read_text()) == first
    assert record.stat().st_mode & 0o077 == 0, "it holds a password"
    assert shell("up") == first, "a second up only prints"
    assert checks(shell("check-stack"))["kafka answers"] == "ok"

    os.kill(first["kafka_pid"], signal.SIGSTOP)
    try:
        sick = shell("check-stack", code=1)
    finally:
        os.kill(first["kafka_pid"], signal.SIGCONT)
    assert sick["healthy"] is False
    assert checks(sick)["kafka answers"] == "failed"

    os.kill(first["owner"], signal.SIGKILL)
    eventually_sync(lambda: not is_owned(shell.folder / ".stack/dev"), within=20)
    assert checks(shell("check-stack"))["stack dev"] == "absent"
    second = shell("up")
    assert second["owner"] != first["owner"]

    assert shell("down")["stopped"] is True
    assert not record.exists()
    assert shell("down", "--delete-data")["stopped"] is False
    assert list((shell.folder / ".stack").iterdir()) == []
