"""`sagabus new participant`: whole projects whose tests pass, or nothing at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sagabus_cli.app import run
from sagabus_cli.scaffold.joining import read_project


def test_the_tests_of_a_new_project_pass_at_once(tmp_path: Path) -> None:
    assert run(["new", "participant", "gift-cards", "--dir", str(tmp_path)]) == 0
    project = tmp_path / "gift-cards"

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider"],
        cwd=project,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 passed" in done.stdout
    left = [file for file in project.rglob("*") if file.is_file()]
    assert not [file for file in left if "{{" in file.read_text() or file.suffix == ".tmpl"]


def test_a_project_says_what_join_needs(tmp_path: Path) -> None:
    run(["new", "participant", "gift-cards", "--dir", str(tmp_path)])

    project = read_project(tmp_path / "gift-cards")

    assert (project.participant, project.module) == ("gift-cards", "gift_cards_participant")
    assert all(json.loads(file.read_text())["workflow"] for file in project.workflows)
    assert (project.directory / "src" / project.module / "__main__.py").is_file()


@pytest.mark.parametrize("name", ["Gift", "gift_cards", "3d", "a" * 41, "", "../up", "ünder"])
def test_a_bad_name_writes_nothing(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["new", "participant", name, "--dir", str(tmp_path)]) == 2
    assert "[invalid_name]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_name_of_a_service_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "participant", "relay", "--dir", str(tmp_path)]) == 2
    assert "[name_taken]" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_an_existing_directory_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "gifts" / "mine"
    mine.parent.mkdir()
    mine.write_text("mine")

    assert run(["new", "participant", "gifts", "--dir", str(tmp_path)]) == 4
    assert "[directory_exists]" in capsys.readouterr().err
    assert [file.read_text() for file in tmp_path.rglob("*") if file.is_file()] == ["mine"]


def test_the_folder_has_to_exist(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["new", "participant", "gifts", "--dir", str(tmp_path / "no")]) == 2
    assert "[directory_missing]" in capsys.readouterr().err


def test_a_full_disk_leaves_nothing_half_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written = 0

    def write(self: Path, text: str) -> int:
        nonlocal written
        written += 1
        if written == 5:
            raise OSError(28, "No space left on device")
        self.touch()
        return len(text)

    monkeypatch.setattr(Path, "write_text", write)

    assert run(["new", "participant", "gifts", "--dir", str(tmp_path)]) == 4
    assert "[directory_unwritable]" in capsys.readouterr().err
    assert written == 5
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "text", [None, "", "[tool]\n", "not toml", '[tool.sagabus]\nmodule = "x"\n']
)
def test_join_needs_a_project(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "pyproject.toml").write_text(text)
    assert run(["join", str(tmp_path)]) == 2
    assert "[no_project]" in capsys.readouterr().err
