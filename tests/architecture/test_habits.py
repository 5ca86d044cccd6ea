"""Habits of the house that a machine can check."""

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")])
TESTS = sorted(
    [
        *ROOT.glob("tests/**/*.py"),
        *ROOT.glob("libs/*/tests/**/*.py"),
        *ROOT.glob("services/*/tests/**/*.py"),
    ]
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", TESTS, ids=name)
def test_no_sleep_in_tests(path: Path) -> None:
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "sleep"
    ]
    assert not calls, "wait for a condition with a deadline instead (sagabus_testkit.eventually)"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_assert_decides_at_run_time(path: Path) -> None:
    lines = [n.lineno for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Assert)]
    assert not lines, "an assert vanishes under -O: raise a typed error"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_public_face_is_declared(path: Path) -> None:
    if path.name != "__init__.py":
        return
    assert re.search(r"^__all__", path.read_text(), re.MULTILINE), "declare __all__"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_ignores_have_a_code_and_a_reason(path: Path) -> None:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if "type: ignore" in line:
            assert re.search(r"type: ignore\[[a-z-, ]+\]\s+#\s+\S+", line), (
                f"line {number}: give the code and the reason"
            )


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_sql_lives_in_sql_files(path: Path) -> None:
    statement = re.compile(
        r"^\s*(select\s.+\sfrom|insert\s+into|update\s.+\sset|delete\s+from)\s", re.I
    )
    strings = [
        node.value
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert not [text for text in strings if statement.match(text)]


def tracked() -> list[str]:
    listing = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    )
    return [path for path in listing.stdout.split("\0") if path and (ROOT / path).is_file()]


def test_constraints_hold_names_and_versions_only() -> None:
    for line in (ROOT / "deploy/python/constraints.txt").read_text().splitlines():
        assert re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!-]+", line), line


def test_nothing_is_tracked_that_holds_addresses_or_was_built() -> None:
    forbidden = re.compile(
        r"(^|/)(uv\.lock|poetry\.lock|pdm\.lock|pylock.*\.toml|package-lock\.json|yarn\.lock)$"
        r"|\.(jar|whl|so|zip|gz|class|pyc)$"
    )
    assert not [path for path in tracked() if forbidden.search(path)]


def test_the_visible_root_stays_small() -> None:
    expected = {"services", "libs", "contracts", "deploy", "tests", "Makefile", "README.md"}
    visible = {path.split("/")[0] for path in tracked() if not path.startswith(".")}
    assert visible <= expected | {"CHANGELOG.md"}
