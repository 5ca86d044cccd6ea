"""The README tells the truth: its diagram is the engine's table, its paths and targets exist."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sagabus_core.engine.diagram import mermaid_status

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def test_the_status_diagram_is_made_from_the_table() -> None:
    block = re.search(r"<!-- status diagram.*?```mermaid\n(.*?)\n```", README, re.DOTALL)
    assert block is not None
    assert block[1].strip() == mermaid_status().strip(), "paste mermaid_status() into README.md"


@pytest.mark.parametrize("target", sorted(set(re.findall(r"`make ([a-z-]+)`", README))))
def test_every_target_exists(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "path", sorted(set(re.findall(r"`((?:libs|services|contracts|deploy|tests)/[^` ]*)`", README)))
)
def test_every_path_exists(path: str) -> None:
    assert (ROOT / path).exists()


@pytest.mark.parametrize("module", sorted(set(re.findall(r"`python -m ([a-z_]+)`", README))))
def test_every_service_module_exists(module: str) -> None:
    assert list(ROOT.glob(f"services/*/src/{module}/__main__.py"))


def test_every_command_and_option_of_the_readme_exists() -> None:
    blocks = "\n".join(re.findall(r"```sh\n(.*?)```", README, re.DOTALL))
    lines = re.findall(r"^sagabus ([a-z-]+)(.*)$", blocks, re.MULTILINE)
    assert lines
    for name, rest in lines:
        done = subprocess.run(
            [sys.executable, "-m", "sagabus_cli", name, "--help"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
        )
        assert done.returncode == 0, done.stderr
        for option in re.findall(r"--[a-z-]+", rest):
            assert option in done.stdout, f"{name} has no {option}"
