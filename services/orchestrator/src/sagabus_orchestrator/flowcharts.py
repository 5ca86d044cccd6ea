"""The flow of a definition as a Mermaid flowchart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from sagabus_core.definitions import (
    Branch,
    ChoiceNode,
    Definition,
    Node,
    ParallelNode,
    SequenceNode,
    StepKind,
    StepNode,
)

__all__ = ["flowchart"]

_SHAPES = {
    StepKind.COMPENSATABLE: ('["', '"]'),
    StepKind.PIVOT: ('{{"', '"}}'),
    StepKind.RETRIABLE: ('("', '")'),
}


class _Drawing:
    """Numbers nodes and collects lines; a part is drawn between its entries and its exits."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._count = 0

    def node(self, shape: str) -> str:
        """Add a node; returns its name."""
        self._count += 1
        name = f"n{self._count}"
        self.lines.append(f"    {name}{shape}")
        return name

    def edges(self, sources: Sequence[str], target: str) -> None:
        """Lead every source to the target; a source may carry a label: `n1 -- text`."""
        self.lines.extend(f"    {source} --> {target}" for source in sources)


def flowchart(definition: Definition) -> str:
    """Return the flow: boxes are compensatable, hexagons pivots, rounded boxes retriable."""
    drawing = _Drawing()
    begin = drawing.node("((start))")
    exits = _draw(drawing, definition.flow, [begin])
    drawing.edges(exits, drawing.node("((end))"))
    return "\n".join(["flowchart TD", *drawing.lines, ""])


def _draw(drawing: _Drawing, node: Node, entries: list[str]) -> list[str]:
    match node:
        case StepNode():
            left, right = _SHAPES[node.step.kind]
            named = node.name if node.name == node.step.name else f"{node.name}: {node.step.name}"
            name = drawing.node(f"{left}{named}<br/>{node.step.participant}{right}")
            drawing.edges(entries, name)
            return [name]
        case SequenceNode():
            for child in node.children:
                entries = _draw(drawing, child, entries)
            return entries
        case ParallelNode():
            fork = drawing.node(f'[/"{node.name}: all of"/]')
            drawing.edges(entries, fork)
            exits = list(_branches(drawing, node.branches, fork))
            join = drawing.node(f'[\\"{node.name}: joined"\\]')
            drawing.edges(exits, join)
            return [join]
        case ChoiceNode():
            fork = drawing.node(f'{{"{node.name}?"}}')
            drawing.edges(entries, fork)
            return list(_branches(drawing, node.branches, fork))
        case _:
            assert_never(node)


def _branches(drawing: _Drawing, branches: Sequence[Branch], fork: str) -> Iterator[str]:
    for branch in branches:
        text = (branch.when or branch.name).replace('"', "'")
        yield from _draw(drawing, branch.body, [f'{fork} -- "{text}"'])
