"""What a workflow definition says, as plain values; `parse.py` makes them from a document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from sagabus_core.canonical import JsonValue
from sagabus_core.payload import PayloadContract

if TYPE_CHECKING:
    from sagabus_core.definitions.conditions import Conditions

__all__ = [
    "Backoff",
    "Branch",
    "ChoiceNode",
    "Definition",
    "DefinitionOutput",
    "Node",
    "ParallelNode",
    "Pointer",
    "SequenceNode",
    "StartContract",
    "StepDefinition",
    "StepKind",
    "StepNode",
    "TimeoutPolicy",
    "Timing",
    "VariableType",
]

Pointer: TypeAlias = tuple[str, ...]
"""A parsed RFC 6901 JSON pointer; the empty tuple is the whole document."""


class StepKind(StrEnum):
    """How a step takes part in an abort."""

    COMPENSATABLE = "compensatable"
    PIVOT = "pivot"
    RETRIABLE = "retriable"


class TimeoutPolicy(StrEnum):
    """What a success means that was learnt only after the step's timeout."""

    ACCEPT_LATE_SUCCESS = "accept_late_success"
    COMPENSATE_LATE_SUCCESS = "compensate_late_success"


class VariableType(StrEnum):
    """Declared type of a variable; `integer` stays within +-(2^53-1)."""

    STRING = "string"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential distance between attempts: `initial_ms * factor^(n-1)`, at most `max_ms`."""

    initial_ms: int = 1_000
    factor: float = 2.0
    max_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Timing:
    """Limits of one phase: how long an attempt may take, how many, how far apart.

    `budget_ms` (RESOLVE only) bounds the whole stay in RESOLVING.
    """

    timeout_ms: int
    attempts: int = 1
    backoff: Backoff = Backoff()
    budget_ms: int | None = None


@dataclass(frozen=True, slots=True)
class StepDefinition:
    """A step as its participant registered it; several flow nodes may use it.

    A non-retriable step has `resolve`, and `cancel` exactly if it is `cancellable`; a retriable
    one has `execute` alone. `compensate` is None where there is nothing to undo.
    """

    name: str
    participant: str
    kind: StepKind
    cancellable: bool
    unknown_allowed: bool
    timeout_policy: TimeoutPolicy
    execute: Timing
    cancel: Timing | None
    compensate: Timing | None
    resolve: Timing | None
    payload: PayloadContract | None = None
    rejects_invalid_payload: bool = False
    output: PayloadContract | None = None

    @property
    def retriable(self) -> bool:
        """Whether the step must succeed in the end and is never cancelled nor compensated."""
        return self.kind is StepKind.RETRIABLE


@dataclass(frozen=True, slots=True)
class StepNode:
    """A place in the flow that runs a step; `path` is the path of its activation.

    `input` maps payload fields to variables (None: the command carries identity only); `output`
    maps variables to pointers into the step's JSON output.
    """

    path: str
    name: str
    step: StepDefinition
    input: tuple[tuple[str, str], ...] | None = None
    output: tuple[tuple[str, Pointer], ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceNode:
    """Children one after the other; adds no segment to a path."""

    children: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """A named body; `when` is the condition of a choice's branch, None for all others."""

    name: str
    path: str
    body: Node
    when: str | None = None


@dataclass(frozen=True, slots=True)
class ParallelNode:
    """All branches at once; finished when all of them are."""

    path: str
    name: str
    branches: tuple[Branch, ...]


@dataclass(frozen=True, slots=True)
class ChoiceNode:
    """The first branch whose condition holds; the last one is `otherwise` (`when` is None)."""

    path: str
    name: str
    branches: tuple[Branch, ...]


Node: TypeAlias = StepNode | SequenceNode | ParallelNode | ChoiceNode
"""A node of the flow tree."""


@dataclass(frozen=True, slots=True)
class StartContract:
    """The payload that a start must carry, and which variables it sets."""

    contract: PayloadContract
    variables: tuple[tuple[str, Pointer], ...] = ()


@dataclass(frozen=True, slots=True)
class DefinitionOutput:
    """What a completed saga reports: fields of a JSON object, taken from variables."""

    contract: PayloadContract
    fields: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Definition:
    """An immutable, validated workflow version.

    `document` is what was published, `digest` the SHA-256 of its RFC 8785 form; two definitions
    are the same exactly if tenant, workflow, version and digest are. `nodes` and `choices` find
    a node by the path of its activation, `behind` what follows a step (`order.py`).
    """

    workflow: str
    version: int
    tenant: str | None
    digest: str
    flow: SequenceNode
    steps: Mapping[str, StepDefinition] = field(repr=False)
    variables: Mapping[str, VariableType] = field(repr=False)
    nodes: Mapping[str, StepNode] = field(repr=False)
    choices: Mapping[str, ChoiceNode] = field(repr=False)
    behind: Mapping[str, tuple[Node, ...]] = field(repr=False, compare=False)
    document: Mapping[str, JsonValue] = field(repr=False)
    conditions: Conditions = field(repr=False, compare=False)
    input: StartContract | None = None
    output: DefinitionOutput | None = None

    @property
    def participants(self) -> frozenset[str]:
        """Every participant whose topics must exist before this version may be activated."""
        return frozenset(node.step.participant for node in self.nodes.values())
