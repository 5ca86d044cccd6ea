"""Where the flow stands: which nodes are next, and whether everything is finished."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Protocol

from sagabus_core.definitions.model import (
    ChoiceNode,
    Definition,
    Node,
    ParallelNode,
    SequenceNode,
    StepNode,
)
from sagabus_core.engine.snapshot import Activation
from sagabus_core.engine.vocabulary import ForwardState

__all__ = ["View", "chosen_branch", "frontier", "skipped", "steps_below", "walk_on"]

_SUCCEEDED: Final = ForwardState.SUCCEEDED


class View(Protocol):
    """What a walk reads; a snapshot and a draft both offer it."""

    @property
    def activations(self) -> Mapping[str, Activation]:
        """Issued activations by path."""

    @property
    def branches(self) -> Mapping[str, str]:
        """Chosen branches by the path of their choice."""


def chosen_branch(node: ChoiceNode, branch: str) -> Node:
    """Return the body of a branch by name."""
    return next(each.body for each in node.branches if each.name == branch)


def walk_on(
    nodes: Iterable[Node], view: View, steps: list[StepNode], choices: list[ChoiceNode]
) -> bool:
    """Walk one node after the other, up to the first unfinished one; return whether none is.

    What is next is appended to `steps` and `choices`. A sequence yields its first unfinished child,
    a parallel all of its branches, a choice the branch it took. A rejected or cancelled activation
    is unfinished and yields nothing.
    """
    for node in nodes:  # noqa: SIM110  # a generator would double the price of the usual one node
        if not _walk(node, view, steps, choices):
            return False
    return True


def _walk(node: Node, view: View, steps: list[StepNode], choices: list[ChoiceNode]) -> bool:
    match node:
        case StepNode():
            activation = view.activations.get(node.path)
            if activation is None:
                steps.append(node)
                return False
            return activation.state is _SUCCEEDED
        case SequenceNode():
            return walk_on(node.children, view, steps, choices)
        case ParallelNode():
            # Every branch is walked: `all` over a generator would stop at the first unfinished one.
            return all([_walk(each.body, view, steps, choices) for each in node.branches])  # noqa: C419
        case ChoiceNode():
            branch = view.branches.get(node.path)
            if branch is None:
                choices.append(node)
                return False
            return _walk(chosen_branch(node, branch), view, steps, choices)


def frontier(definition: Definition, view: View) -> tuple[StepNode | ChoiceNode, ...]:
    """Return the steps, then the choices, that may be visited next; empty if nothing is."""
    steps: list[StepNode] = []
    choices: list[ChoiceNode] = []
    walk_on((definition.flow,), view, steps, choices)
    return (*steps, *choices)


def steps_below(node: Node) -> tuple[StepNode, ...]:
    """Return all steps of a subtree, in document order."""
    match node:
        case StepNode():
            return (node,)
        case SequenceNode():
            return tuple(step for child in node.children for step in steps_below(child))
        case ParallelNode() | ChoiceNode():
            return tuple(step for each in node.branches for step in steps_below(each.body))


def skipped(definition: Definition, view: View) -> frozenset[str]:
    """Return the paths of all activations that lie in branches which were not taken."""
    return frozenset(
        step.path
        for path, taken in view.branches.items()
        for branch in definition.choices[path].branches
        if branch.name != taken
        for step in steps_below(branch.body)
    )
