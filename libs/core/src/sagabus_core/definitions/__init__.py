"""Workflow definitions: what they may say, and every reason why one is refused."""

from sagabus_core.definitions.conditions import Conditions, NoConditions
from sagabus_core.definitions.model import (
    Backoff,
    Branch,
    ChoiceNode,
    Definition,
    DefinitionOutput,
    Node,
    ParallelNode,
    SequenceNode,
    StartContract,
    StepDefinition,
    StepKind,
    StepNode,
    TimeoutPolicy,
    Timing,
    VariableType,
)
from sagabus_core.definitions.parse import definition_digest, parse_definition
from sagabus_core.definitions.problems import InvalidDefinition, Problem
from sagabus_core.definitions.selection import (
    DefinitionKey,
    DefinitionState,
    select_for_start,
)

__all__ = [
    "Backoff",
    "Branch",
    "ChoiceNode",
    "Conditions",
    "Definition",
    "DefinitionKey",
    "DefinitionOutput",
    "DefinitionState",
    "InvalidDefinition",
    "NoConditions",
    "Node",
    "ParallelNode",
    "Problem",
    "SequenceNode",
    "StartContract",
    "StepDefinition",
    "StepKind",
    "StepNode",
    "TimeoutPolicy",
    "Timing",
    "VariableType",
    "definition_digest",
    "parse_definition",
    "select_for_start",
]
