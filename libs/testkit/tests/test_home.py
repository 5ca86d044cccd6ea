"""The stack's directory and the cache: one owner, whole or not at all."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sagabus_testkit import LocalStack, StackError
from sagabus_testkit.stack.cache import build_once
from sagabus_testkit.stack.detached import delete_data, stop_detached
from sagabus_testkit.stack.home import is_owned
from sagabus_testkit.stack.ports import ReservedPorts


def test_a_name_has_one_owner_at_a_time(tmp_path: Path) -> None:
    with LocalStack("one", root=tmp_path) as first:
        assert is_owned(first.directory)
        with pytest.raises(StackError, match="in use") as caught, LocalStack("one", root=tmp_path):
            pass
        assert caught.value.code == "stack_busy"
    assert not first_exists(tmp_path)


def first_exists(root: Path) -> bool:
    return (root / "one").exists()


def test_it_is_kept_on_request(tmp_path: Path) -> None:
    for _ in range(2):
        with LocalStack("one", root=tmp_path, keep=True):
            pass
        assert first_exists(tmp_path)
    delete_data("one", tmp_path)
    assert not first_exists(tmp_path)


def test_what_a_dead_process_left_is_removed_and_nothing_else(tmp_path: Path) -> None:
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    for name, owner in (("test-1", dead.pid), ("test-2", os.getpid()), ("dev", dead.pid)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "lock").write_text(str(owner))
    (tmp_path / "other-3").mkdir()
    with LocalStack("new", root=tmp_path):
        left = {path.name for path in tmp_path.iterdir()}
    assert left == {"test-2", "dev", "other-3", "new"}


@pytest.mark.parametrize("name", ["../x", "", "A", "a/b", ".hidden"])
def test_a_name_is_never_a_path(name: str, tmp_path: Path) -> None:
    for act in (delete_data, stop_detached):
        with pytest.raises(StackError, match="must match"):
            act(name, tmp_path)


def test_stopping_what_does_not_run_changes_nothing(tmp_path: Path) -> None:
    assert stop_detached("dev", tmp_path) is False


def test_a_cache_entry_is_built_once_by_several_at_once(tmp_path: Path) -> None:
    built: list[Path] = []

    def build(target: Path) -> None:
        built.append(target)
        (target / "file").write_text("x")

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: build_once(tmp_path / "entry", build), range(8)))
    assert len(built) == 1
    assert {path / "file" for path in found} == {tmp_path / "entry" / "file"}


def test_a_build_that_fails_or_was_killed_leaves_no_half_entry(tmp_path: Path) -> None:
    (tmp_path / ".entry.partial-killed").mkdir()

    def fail(target: Path) -> None:
        (target / "half").write_text("x")
        raise StackError("broken", "no network")

    with pytest.raises(StackError, match="no network"):
        build_once(tmp_path / "entry", fail)
    assert {path.name for path in tmp_path.iterdir()} == {".entry.lock"}
    assert build_once(tmp_path / "entry", lambda _: None).is_dir()


def test_a_cache_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StackError, match="SAGABUS_CACHE"):
        build_once(tmp_path / "file" / "entry", lambda _: None)


def test_ports_are_different_and_come_back() -> None:
    ports = ReservedPorts()
    taken = [ports.take() for _ in range(20)]
    assert len(set(taken)) == 20
    ports.release()
    ports.release()
