"""The schema of definitions and their parser agree about structure: neither refuses alone."""

import copy
import json
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # ships no types; used for tests alone
import pytest

from sagabus_core.definitions import InvalidDefinition, parse_definition
from sagabus_core.definitions import limits as most
from sagabus_core.testing import (
    TinyConditions,
    choice,
    compensatable,
    document,
    parallel,
    pivot,
    retriable,
)
from sagabus_testkit.orders import DEFINITION

from .examples import CONTRACTS

SCHEMA = json.loads((CONTRACTS / "schemas/definition.v1.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
JSON = {"content_type": "application/json", "schema_id": "s.v1"}
OPAQUE = {"content_type": "image/png", "schema_id": "s.v1"}


def full() -> dict[str, Any]:
    """Return a document that says everything a document can say."""
    steps = {
        "a": compensatable(payload={**JSON, "invalid_payload": "reject"}, output=JSON),
        "b": compensatable(cancellable=False, compensation="none", execute={"timeout_ms": 1}),
        "p": pivot(cancellable=True, cancel={"timeout_ms": most.MAX_DURATION_MS}),
        "r": retriable(payload=JSON, cancellable=False, unknown_allowed=True),
    }
    reads = {"step": "a", "name": "first", "input": {"any field": "v"}, "output": {"w": "/x/~1/0"}}
    asks = choice("c", [], big=("v > 3", ["b", parallel("q", x="a", y=[])]), small=("not f", "a"))
    both = parallel("both", left=["b"], right={"step": "a", "name": "again"})
    more = {
        "tenant": "ACME Corp",
        "variables": {"v": "integer", "w": "json", "f": "boolean"},
        "input": {**JSON, "set": {"v": "/v", "f": ""}},
        "output": {**JSON, "fields": {"total": "w"}},
    }
    return document(steps, reads, both, asks, "p", {"step": "r", "input": {"v": "v"}}, **more)


VALID = [
    full(),
    json.loads(DEFINITION.read_bytes()),
    document({"a": compensatable()}, "a"),
    document({"a": compensatable(timeout_policy="compensate_late_success")}, "a"),
    document({"p": pivot(), "r": retriable()}, "p", parallel("x", y="r", z="r")),
    document({"a": compensatable()}, "a", input=OPAQUE),
    document({f"s{n}": compensatable() for n in range(most.MAX_STEPS)}, "s0"),
    document({"a": compensatable()}, *({"step": "a", "name": f"n{n}"} for n in range(256))),
    document({"a": compensatable()}, "a", variables={f"v{n}": "json" for n in range(64)}),
]


def parser_accepts(candidate: Any) -> bool:
    try:
        parse_definition(candidate, TinyConditions())
    except InvalidDefinition:
        return False
    return True


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("valid", VALID, ids=range(len(VALID)))
def test_what_the_parser_accepts_the_schema_accepts(valid: dict[str, Any]) -> None:
    VALIDATOR.validate(valid)
    uses_cel = valid is VALID[1]
    assert uses_cel or parser_accepts(valid)


def changed(path: str, value: object) -> dict[str, Any]:
    result = copy.deepcopy(full())
    *way, last = path.strip("/").split("/")
    target: Any = result
    for token in way:
        target = target[int(token) if isinstance(target, list) else token]
    if value is ...:
        del target[last]
    else:
        target[int(last) if isinstance(target, list) else last] = value
    return result


FLOW = "/flow/sequence"
REQUIRED = [
    "/workflow",
    "/version",
    "/steps",
    "/flow",
    f"{FLOW}/2/choice/otherwise",
    "/steps/a/resolve",
]
REQUIRED += [
    f"/steps/a/{name}" for name in ("participant", "kind", "execute", "cancellable", "cancel")
]
REQUIRED += [f"/steps/a/{name}" for name in ("unknown_allowed", "timeout_policy", "compensate")]
REQUIRED += [f"/steps/a/resolve/{name}" for name in ("timeout_ms", "budget_ms")]
REQUIRED += ["/input/schema_id", "/output/content_type", f"{FLOW}/2/choice/branches/0/when"]
OTHERS: list[tuple[str, object]] = [
    *((path, None) for path in ("/tenant", "/variables", "/input", "/steps/a/cancel")),
    *((path, {"a": 1}) for path in ("/input", "/output", "/steps/a/execute", "/steps/r/payload")),
    ("/workflow", "Order"),
    ("/workflow", "a" * 64),
    ("/version", 0),
    ("/version", most.MAX_VERSION + 1),
    ("/version", True),
    ("/tenant", ""),
    ("/tenant", "t" * 129),
    ("/tenant", "a\nb"),
    ("/more", 1),
    ("/variables", {"in": "string"}),
    ("/variables", {"x" * 64: "string"}),
    ("/variables", {"x": "date"}),
    ("/variables", {f"v{n}": "json" for n in range(65)}),
    ("/steps", {}),
    ("/steps", {f"s{n}": compensatable() for n in range(most.MAX_STEPS + 1)}),
    ("/steps/a/kind", "magic"),
    ("/steps/a/retries", 3),
    ("/steps/a/compensation", "none"),
    ("/steps/a/cancellable", False),
    ("/steps/a/execute/timeout_ms", 0),
    ("/steps/a/execute/timeout_ms", 1.5),
    ("/steps/a/execute/timeout_ms", most.MAX_DURATION_MS + 1),
    ("/steps/a/execute/attempts", 2),
    ("/steps/a/execute/backoff", {}),
    ("/steps/a/cancel/attempts", most.MAX_ATTEMPTS + 1),
    ("/steps/a/cancel/budget_ms", 1),
    ("/steps/a/cancel/backoff/factor", 0.5),
    ("/steps/a/cancel/backoff/factor", most.MAX_BACKOFF_FACTOR + 1),
    ("/steps/p/timeout_policy", "compensate_late_success"),
    ("/steps/p/compensate", {"timeout_ms": 1}),
    ("/steps/p/compensation", "none"),
    ("/steps/r/resolve", {"timeout_ms": 1, "budget_ms": 1}),
    ("/steps/r/cancellable", True),
    ("/steps/r/payload/invalid_payload", "reject"),
    ("/flow", {"sequence": []}),
    (f"{FLOW}/0", {"sequence": [{"step": "a"}]}),
    (f"{FLOW}/0", {"step": "a", "parallel": {}}),
    (f"{FLOW}/0/step", "a.b"),
    (f"{FLOW}/0/input", {"": "v"}),
    (f"{FLOW}/0/output", {"w": "x"}),
    (f"{FLOW}/1/parallel/branches", {"left": {"step": "a"}}),
    (f"{FLOW}/1/parallel/branches/left", []),
    (f"{FLOW}/2/choice/branches", []),
    (f"{FLOW}/2/choice/branches/0/when", ""),
    (f"{FLOW}/2/choice/otherwise/when", "f"),
    ("/output/content_type", "text/plain"),
]
BROKEN = [(path, ...) for path in REQUIRED] + OTHERS


@pytest.mark.parametrize(("path", "value"), BROKEN, ids=lambda v: v if isinstance(v, str) else "")
def test_structural_errors_are_refused_by_both(path: str, value: object) -> None:
    broken = changed(path, value)
    assert not parser_accepts(broken)
    assert not VALIDATOR.is_valid(broken)
