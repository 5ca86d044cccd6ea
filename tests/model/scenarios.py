"""The scenarios: small definitions with everything that can go wrong around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.model.participants import Traits
from tests.model.world import Scenario

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import Definition, parse_definition
from sagabus_core.payload import Payload
from sagabus_core.testing import TinyConditions

__all__ = ["FULL", "QUICK", "define", "flow_of", "make", "parallel", "step"]

_TIMING: dict[str, JsonValue] = {
    "timeout_ms": 10_000,
    "attempts": 2,
    "backoff": {"initial_ms": 1_000, "factor": 1, "max_ms": 1_000},
}
_JSON: dict[str, JsonValue] = {"content_type": "application/json", "schema_id": "model"}


def step(
    *,
    cancellable: bool = True,
    late: str = "accept",
    kind: str = "compensatable",
    **more: JsonValue,
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
    return parse_definition(document, TinyConditions())


def parallel(*names: str) -> dict[str, JsonValue]:
    branches: dict[str, JsonValue] = {f"b{n}": {"step": name} for n, name in enumerate(names)}
    return {"parallel": {"name": "par", "branches": branches}}


def make(
    name: str,
    steps: dict[str, dict[str, JsonValue]],
    traits: Mapping[str, Traits],
    flow: dict[str, JsonValue] | None = None,
) -> Scenario:
    """Return a scenario of a flow; without one its steps follow each other."""
    declared: dict[str, JsonValue] = dict(steps)
    return Scenario(name, define(declared, flow or flow_of(*steps)), traits)


_FREE = Traits("SRU", "SU")
_HALTING = Traits("SRUH", "SUH")
_PLAIN = Traits("SR", "S")
_BLUNT = Traits("SR", "S", lazy=False)
_PROMPT = Traits("S", "S", lazy=False, callback=False)
_REFUSING = Traits("R", lazy=False, callback=False)
_UNSURE = Traits("SRU", "S", lazy=False, callback=False)
_RETRIED = Traits("SRU", retriable=True)
_RESOLVED = step(cancellable=False)
_REGRETTED = step(late="compensate")
_PIVOT = step(kind="pivot")
_RETRIABLE = step(kind="retriable")

ONE = make("one-step", {"a": step()}, {"a": _FREE})
SERIAL_2 = make("serial-2", {"a": step(), "b": _REGRETTED}, {"a": _FREE, "b": _FREE})
SERIAL_3 = make(
    "serial-3",
    {"a": step(), "b": _RESOLVED, "c": _REGRETTED},
    {"a": _FREE, "b": _FREE, "c": _FREE},
)
PIVOT = make(
    "serial-pivot-retriable",
    {"a": step(), "p": _PIVOT, "r": _RETRIABLE},
    {"a": _FREE, "p": _FREE, "r": _RETRIED},
)
RESOLVE_ONLY = make(
    "resolve-only",
    {"a": _RESOLVED, "b": step(cancellable=False, late="compensate")},
    {"a": _HALTING, "b": _HALTING},
)
PARALLEL = replace(
    make(
        "parallel-cancellable-resolve-only",
        {"a": step(), "b": _RESOLVED},
        {"a": _UNSURE, "b": _BLUNT},
        flow_of(parallel("a", "b")),
    ),
    loss=False,
)
PARALLEL_LATE = replace(
    make(
        "parallel-compensate-late",
        {"a": _REGRETTED, "b": _REGRETTED},
        {"a": _UNSURE, "b": _BLUNT},
        flow_of(parallel("a", "b")),
    ),
    loss=False,
)
PARALLEL_HALTED = replace(
    make(
        "parallel-halted-retry",
        {"a": step(), "b": _RESOLVED},
        {"a": Traits("SH", "S", lazy=False, callback=False), "b": _PROMPT},
        flow_of(parallel("a", "b")),
    ),
    operations=("retry",),
    loss=False,
    duplicates=0,
)
PARALLEL_HALTED_TWICE = replace(
    PARALLEL_HALTED,
    name="parallel-halted-retry-repeated",
    traits={"a": Traits("SH", "S", lazy=False, callback=False), "b": _REFUSING},
    duplicates=1,
)
"""The halted branch beside one that turns the saga back, with a command delivered twice."""
PAUSED = replace(
    SERIAL_2,
    name="serial-2-paused",
    operations=("pause",),
    traits={"a": _PLAIN, "b": _BLUNT},
    loss=False,
)
PAUSED_UNDO = replace(
    SERIAL_2,
    name="serial-2-undo-paused",
    operations=("pause",),
    traits={"a": Traits("S", "SU"), "b": _REFUSING},
    loss=False,
)
"""PAUSED while nobody knows whether the undo of `a` happened."""
OPERATED = replace(
    make(
        "serial-2-operated",
        {"a": step(), "b": _RESOLVED},
        {"a": Traits("SRUH", "SH", lazy=False, callback=False), "b": _BLUNT},
    ),
    operations=("cancel", "record", "retry"),
    loss=False,
    duplicates=0,
)
OPERATED_TWICE = replace(
    OPERATED,
    name="serial-2-operated-repeated",
    traits={"a": Traits("SH", "SH", lazy=False, callback=False), "b": _REFUSING},
    operations=("close", "record", "retry"),
    duplicates=1,
)
PIVOT_DEADLINE = replace(
    PIVOT,
    name="pivot-deadline",
    traits={"a": Traits("S", "S"), "p": Traits("SRU", "S"), "r": Traits("SR", retriable=True)},
    deadline=True,
    loss=False,
)


def _choice(world: str) -> Scenario:
    """A choice on what the first step reports: yes, no, null (no condition holds), or garbage."""
    definition = define(
        {"ask": step(output=_JSON), "x": step(), "y": _RESOLVED, "z": step()},
        flow_of(
            {"step": "ask", "output": {"flag": "/flag"}},
            {
                "choice": {
                    "name": "pick",
                    "branches": [{"name": "yes", "when": "flag", "flow": {"step": "x"}}],
                    "otherwise": {"name": "no", "flow": {"step": "y"}},
                }
            },
            "z",
        ),
        variables={"flag": "json"},
    )
    body = {"yes": b'{"flag":true}', "no": b'{"flag":false}', "null": b'{"flag":null}'}
    return Scenario(
        f"choice-{world}",
        definition,
        {"ask": _FREE if world == "yes" else _BLUNT, "x": _PLAIN, "y": _PLAIN, "z": _BLUNT},
        operations=("record", "cancel") if world in {"null", "garbage"} else (),
        loss=world == "yes",
        outputs={"ask": Payload("application/json", "model", body.get(world, b"garbage"))},
        attested_output='{"flag":true}',
    )


CHOICES = tuple(_choice(world) for world in ("yes", "no", "null", "garbage"))
FULL: tuple[Scenario, ...] = (
    SERIAL_3,
    PARALLEL_HALTED,
    PARALLEL,
    PARALLEL_HALTED_TWICE,
    OPERATED,
    SERIAL_2,
    PARALLEL_LATE,
    *CHOICES,
    PIVOT,
    PIVOT_DEADLINE,
    RESOLVE_ONLY,
    PAUSED,
    PAUSED_UNDO,
    OPERATED_TWICE,
    replace(ONE, name="one-step-exact", exact=True),
    replace(ONE, name="one-step-halting-exact", exact=True, traits={"a": _HALTING}),
)
"""Everything, the largest first, so that two processes end together."""

QUICK: tuple[Scenario, ...] = (
    replace(ONE, name="one-step"),
    replace(ONE, name="one-step-certain-exact", exact=True, traits={"a": _PLAIN}),
    replace(PARALLEL, name="twins", traits={"a": _BLUNT, "b": _BLUNT}),
    replace(SERIAL_2, name="pair", traits={"a": Traits("SU", "SU"), "b": _BLUNT}, duplicates=0),
    replace(
        PIVOT,
        name="pivot",
        traits={"a": Traits("S", "S"), "p": Traits("SU", "S"), "r": Traits("SR", retriable=True)},
    ),
    replace(SERIAL_2, name="pause", traits={"a": _BLUNT, "b": _BLUNT}, operations=("pause",)),
    replace(
        PAUSED_UNDO,
        name="undo-pause",
        traits={"a": Traits("S", "SU", lazy=False, callback=False), "b": _REFUSING},
        duplicates=0,
        in_flight=1,
    ),
    CHOICES[2],
)
"""The same in small, for every run of the tests."""
