"""Every stable code that the code raises stands in contracts/errors.md."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from .examples import CONTRACTS, examples

ROOT = CONTRACTS.parent
SOURCES = sorted([*ROOT.glob("libs/*/src/**/*.py"), *ROOT.glob("services/*/src/**/*.py")])
RAISED_ELSEWHERE = {"too_old", "too_new"}
"""Returned by `age_problem`; the reader of the record raises or dead-letters them."""
ROW = re.compile(r"^\| `([a-z0-9_]+)` \| ([^|]+) \| ([^|]+) \| (yes|no) \| ([^|]+) \|$")


def table() -> dict[str, tuple[str, ...]]:
    lines = (CONTRACTS / "errors.md").read_text().splitlines()
    rows = [match.groups() for line in lines if (match := ROW.match(line))]
    assert len(rows) == len({row[0] for row in rows}), "a code stands twice"
    assert len(rows) == sum(line.startswith("| `") for line in lines), "a row is malformed"
    return {row[0]: row[1:] for row in rows}


def error_classes() -> set[str]:
    """Names of the classes below SagabusError, by their bases (two packages may share a name)."""
    bases: dict[str, set[str]] = {}
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                named = {base.id for base in node.bases if isinstance(base, ast.Name)}
                bases.setdefault(node.name, set()).update(named)
    found = {"SagabusError"}
    while more := {name for name, parents in bases.items() if parents & found} - found:
        found |= more
    return found


def codes(path: Path, classes: set[str]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id in classes and node.args and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)


def raised(*packages: str) -> set[str]:
    """Return the codes that these folders of libs and services raise; all without a name."""
    classes = error_classes()
    assert {"MessageError", "InvalidValue", "Refused"} <= classes
    chosen = [p for p in SOURCES if not packages or p.relative_to(ROOT).parts[1] in packages]
    return {code for path in chosen for code in codes(path, classes)}


@pytest.mark.parametrize("code", sorted(raised() | RAISED_ELSEWHERE))
def test_each_raised_code_is_in_the_table(code: str) -> None:
    assert code in table()


def test_the_search_finds_codes() -> None:
    assert {"duplicate_key", "header_body_mismatch", "invalid_name"} <= raised()


@pytest.mark.parametrize("code", sorted({example.expect for example in examples("invalid")}))
def test_each_code_of_an_example_is_in_the_table(code: str) -> None:
    assert code in table()
