"""What lies behind each step: where a walk through the flow goes on once the step is finished."""

from __future__ import annotations

from sagabus_core.definitions.model import (
    ChoiceNode,
    Node,
    ParallelNode,
    SequenceNode,
    StepNode,
)

__all__ = ["nodes_behind"]


def nodes_behind(flow: SequenceNode) -> dict[str, tuple[Node, ...]]:
    """Return, by the path of each step, the nodes behind it: the flow is finished when they are.

    First the rest of the step's own sequence; around the branch of a parallel the whole parallel,
    which waits for its other branches; then the rest of the sequence around that, and so on.
    """
    found: dict[str, tuple[Node, ...]] = {}
    _visit(flow, (), found)
    return found


def _visit(node: Node, behind: tuple[Node, ...], found: dict[str, tuple[Node, ...]]) -> None:
    match node:
        case StepNode():
            found[node.path] = behind
        case SequenceNode():
            for index, child in enumerate(node.children, 1):
                _visit(child, (*node.children[index:], *behind), found)
        case ParallelNode():
            for branch in node.branches:
                _visit(branch.body, (node, *behind), found)
        case ChoiceNode():
            for branch in node.branches:
                _visit(branch.body, behind, found)
