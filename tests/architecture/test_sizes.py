"""Small is readable: modules, functions, nesting and parameters keep to the limits of the house."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CORE = ROOT / "libs/core/src"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
NESTING = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.Match)
MODULE_LINES, TEST_LINES, MAX_PARAMETERS = 300, 500, 6


def python_files() -> list[Path]:
    return sorted(
        path
        for base in ("libs", "services", "tests")
        for path in (ROOT / base).rglob("*.py")
        if "templates" not in path.parts
    )


def is_test(path: Path) -> bool:
    return "tests" in path.relative_to(ROOT).parts


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its signature and docstring: what has to be understood."""
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def depth(node: ast.AST, level: int = 0) -> int:
    deepest = level
    for child in ast.iter_child_nodes(node):
        if isinstance(child, FUNCTIONS):
            continue
        # `elif` is one level for its reader, although the tree nests it.
        flat = isinstance(node, ast.If) and [child] == node.orelse and isinstance(child, ast.If)
        step = 1 if isinstance(child, NESTING) and not flat else 0
        deepest = max(deepest, depth(child, level + step))
    return deepest


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, FUNCTIONS):
            yield node


def parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = node.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    return len([a for a in named if a.arg not in {"self", "cls"}])


@pytest.mark.parametrize("path", python_files(), ids=lambda p: str(p.relative_to(ROOT)))
def test_module_is_small(path: Path) -> None:
    limit = TEST_LINES if is_test(path) else MODULE_LINES
    assert len(path.read_text().splitlines()) <= limit


@pytest.mark.parametrize(
    "path",
    [p for p in python_files() if not is_test(p)],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_functions_are_small(path: Path) -> None:
    longest, deepest = (25, 2) if CORE in path.parents else (40, 3)
    problems = [
        f"{node.name} (line {node.lineno}): {code_lines(node)} lines, nesting {depth(node)}, "
        f"{parameters(node)} parameters"
        for node in functions(path)
        if code_lines(node) > longest
        or depth(node) > deepest
        or (parameters(node) > MAX_PARAMETERS and node.name != "__init__")
    ]
    assert not problems, f"limits {longest} lines, nesting {deepest}, {MAX_PARAMETERS} parameters"


def test_the_limits_can_fail() -> None:
    nested = ast.parse("def f():\n if a:\n  for b in c:\n   while d:\n    pass\n").body[0]
    assert depth(nested) == 3
    chain = ast.parse("def f():\n if a:\n  pass\n elif b:\n  pass\n elif c:\n  pass\n").body[0]
    assert depth(chain) == 1
