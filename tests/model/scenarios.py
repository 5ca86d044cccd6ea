"""The scenarios: small definitions with everything that can go wrong around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import Definition, parse_definition
from sagabus_core.definitions.model import VariableType
from sagabus_core.errors import ConditionError
from sagabus_core.payload import Payload

from tests.model.participants import Traits
from tests.model.world import Scenario

__all__ = ["FULL", "QUICK", "define", "flow_of", "step"]

_TIMING: dict[str, JsonValue] = {
    "timeout_ms": 10_000,
    "attempts": 2,
    "backoff": {"initial_ms": 1_000, "factor": 1, "max_ms": 1_000},
}
_JSON: dict[str, JsonValue] = {"content_type": "application/json", "schema_id": "model"}


class _Flags:
    """An expression is the name of a boolean variable; a null cannot be decided on."""

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        return () if expression in variables else (f"{expression} is unknown",)

    def evaluate(self, expression: str, variables: Mapping[str, JsonValue]) -> bool:
        value = variables[expression]
        if value is None:
            raise ConditionError("condition_error", "null is neither true nor false")
        return bool(value)


def step(
    *, cancellable: bool = True, late: str = "accept", kind: str = "compensatable", **more: JsonValue
) -> dict[str, JsonValue]:
    """Return a step of a definition; `late`: accept or compensate."""
    if kind == "retriable":
        return {"participant": "p", "kind": kind, "execute": _TIMING, **more}
    made: dict[str, JsonValue] = {
        "participant": "p",
        "kind": kind,
        "cancellable": cancellable,
        "unknown_allowed": True,
        "timeout_policy": f"{late}_late_success",
        "execute": {"timeout_ms": 10_000},
        "resolve": {**_TIMING, "budget_ms": 100_000},
        **more,
    }
    if cancellable:
        made["cancel"] = _TIMING
    if kind == "compensatable" and "compensation" not in more:
        made["compensate"] = _TIMING
    return made


def flow_of(*nodes: JsonValue) -> dict[str, JsonValue]:
    """Return a sequence."""
    return {"sequence": [{"step": node} if isinstance(node, str) else node for node in nodes]}


def define(
    steps: dict[str, JsonValue], flow: dict[str, JsonValue], **more: JsonValue
) -> Definition:
    """Return a validated definition."""
    document = {"workflow": "w", "version": 1, "steps": steps, "flow": flow, **more}
    return parse_definition(document, _Flags())


def _parallel(*names: str) -> dict[str, JsonValue]:
    branches: dict[str, JsonValue] = {f"b{n}": {"step": name} for n, name in enumerate(names)}
    return {"parallel": {"name": "par", "branches": branches}}


def _serial(name: str, steps: dict[str, JsonValue], traits: Mapping[str, Traits], **more: object) -> Scenario:
    return Scenario(name, define(steps, flow_of(*steps)), traits, **more)  # type: ignore[arg-type]  # fields of Scenario


_BLUNT = Traits(lazy=False)
_SERIAL_2 = _serial("serial-2", {"a": step(), "b": step(late="compensate")}, {"a": Traits("SRU"), "b": Traits("SRU")})
FULL: tuple[Scenario, ...] = (_SERIAL_2,)
QUICK: tuple[Scenario, ...] = FULL
