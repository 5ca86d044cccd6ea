"""The `flow` section: the tree of sequences, parallels and choices, with the path of every node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sagabus_core.definitions.fields import Fields, good_name, pointer_to
from sagabus_core.definitions.limits import MAX_DEPTH, MAX_EXPRESSION_LENGTH, MAX_STEPS
from sagabus_core.definitions.mappings import read_input, read_pointers
from sagabus_core.definitions.model import (
    Branch,
    ChoiceNode,
    Node,
    ParallelNode,
    SequenceNode,
    StepDefinition,
    StepNode,
    VariableType,
)
from sagabus_core.definitions.problems import Problems
from sagabus_core.names import ACTIVATION_MAX

__all__ = ["Flow", "FlowReader", "Place"]

_KINDS = ("step", "parallel", "choice", "sequence")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a node stands: its pointer in the document, its path prefix, what is around it."""

    pointer: str
    prefix: str
    depth: int

    def child(self, *tokens: str) -> Place:
        """Return the place of a member of the document; the path stays."""
        pointer = self.pointer
        for token in tokens:
            pointer = pointer_to(pointer, token)
        return Place(pointer, self.prefix, self.depth)

    def path(self, name: str) -> str:
        """Return the activation path of a named node here."""
        return f"{self.prefix}.{name}" if self.prefix else name


@dataclass(slots=True)
class Flow:
    """What was read: the tree, its nodes by path, and where in the document each stands."""

    nodes: dict[str, StepNode] = field(default_factory=dict)
    choices: dict[str, ChoiceNode] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)


class FlowReader:
    """Reads the tree; what cannot be read is left out, after its problem was noted."""

    def __init__(
        self,
        problems: Problems,
        declared: frozenset[str],
        steps: Mapping[str, StepDefinition],
        variables: Mapping[str, VariableType],
    ) -> None:
        self.problems = problems
        self.flow = Flow()
        self._declared = declared
        self._steps = steps
        self._variables = variables
        self._count = 0

    def root(self, value: object) -> SequenceNode:
        """Return the root sequence."""
        fields = Fields(self.problems, "/flow", value)
        place = Place("/flow", "", 0)
        node = self._sequence(fields, place, may_be_empty=False)
        fields.close()
        if self._count > MAX_STEPS:
            self.problems.add("/flow", "too_many_steps", f"use at most {MAX_STEPS} step nodes")
        return node

    def _sequence(self, fields: Fields, place: Place, *, may_be_empty: bool) -> SequenceNode:
        value = fields.raw("sequence")
        if value is None:
            return SequenceNode(())
        if not isinstance(value, list) or not (value or may_be_empty):
            fields.note("sequence", "list_expected", "write a list of at least one node")
            return SequenceNode(())
        taken: set[str] = set()
        children = [
            self._node(child, place.child("sequence", str(index)), taken)
            for index, child in enumerate(value)
        ]
        return SequenceNode(tuple(child for child in children if child is not None))

    def _body(self, value: object, place: Place) -> Node | None:
        """Read what a branch does: a sequence, or one node."""
        if isinstance(value, dict) and "sequence" in value:
            fields = Fields(self.problems, place.pointer, value)
            node = self._sequence(fields, place, may_be_empty=True)
            fields.close()
            return node
        return self._node(value, place, set())

    def _node(self, value: object, place: Place, taken: set[str]) -> Node | None:
        fields = Fields(self.problems, place.pointer, value)
        kinds = [kind for kind in _KINDS if kind in fields]
        if len(kinds) != 1 or kinds == ["sequence"]:
            self.problems.add(
                place.pointer,
                "node_expected",
                "write one of step, parallel, choice (a sequence "
                "stands only at the root and as the body of a branch)",
            )
            return None
        if place.depth > MAX_DEPTH:
            self.problems.add(place.pointer, "too_deep", f"nest at most {MAX_DEPTH} deep")
            return None
        readers = {"step": self._step, "parallel": self._parallel, "choice": self._choice}
        node = readers[kinds[0]](fields, place, taken)
        fields.close()
        return node

    def _claim(self, fields: Fields, place: Place, name: str | None, taken: set[str]) -> str | None:
        if name is None:
            return None
        if name in taken:
            self.problems.add(
                fields.path, "duplicate_name", f"{name!r} names a sibling already: add a name"
            )
            return None
        taken.add(name)
        path = place.path(name)
        self._check_length(fields, path)
        self.flow.pointers[path] = fields.path
        return path

    def _check_length(self, fields: Fields, path: str) -> None:
        # A longer one would be published and then never find its way into a command.
        if len(path) > ACTIVATION_MAX:
            mend = f"paths have at most {ACTIVATION_MAX} characters: shorten the names around it"
            self.problems.add(fields.path, "path_too_long", mend)

    def _step(self, fields: Fields, place: Place, taken: set[str]) -> StepNode | None:
        self._count += 1
        step_name = fields.name("step")
        name = fields.name("name", required=False) if "name" in fields else step_name
        path = self._claim(fields, place, name, taken)
        if step_name is not None and step_name not in self._declared:
            fields.note("step", "unknown_step", f"declare {step_name!r} under /steps")
        step = self._steps.get(step_name or "")
        inputs = read_input(fields, "input", self._variables)
        outputs = read_pointers(fields, "output", self._variables)
        if path is None or name is None or step is None:
            return None
        _check_contracts(fields, step)
        node = StepNode(path, name, step, inputs, outputs)
        self.flow.nodes[path] = node
        return node

    def _parallel(self, fields: Fields, place: Place, taken: set[str]) -> ParallelNode | None:
        part = fields.child("parallel")
        if part is None:
            return None
        name = part.name("name")
        path = self._claim(part, place, name, taken)
        listed = part.child("branches")
        part.close()
        entries = list(listed.items()) if listed else []
        if len(entries) < 2:
            part.note("branches", "too_few_branches", "a parallel has at least two branches")
        branches: list[Branch] = []
        for branch, pointer, value in entries:
            good_name(self.problems, pointer, branch)
            below = Place(pointer, f"{path or place.path('?')}.{branch}", place.depth + 1)
            body = self._body(value, below)
            branches.append(Branch(branch, below.prefix, body or SequenceNode(())))
        return ParallelNode(path, name, tuple(branches)) if path and name else None

    def _choice(self, fields: Fields, place: Place, taken: set[str]) -> ChoiceNode | None:
        part = fields.child("choice")
        if part is None:
            return None
        name = part.name("name")
        path = self._claim(part, place, name, taken)
        listed, otherwise = part.raw("branches"), part.child("otherwise")
        part.close()
        around = Place(part.path, path or place.path("?"), place.depth)
        branches = self._branches(part, listed, around, otherwise)
        read = tuple(branch for branch in branches if branch is not None)
        if path is None or name is None or len(read) != len(branches):
            return None
        node = ChoiceNode(path, name, read)
        self.flow.choices[path] = node
        return node

    def _branches(
        self, part: Fields, listed: object, around: Place, otherwise: Fields | None
    ) -> list[Branch | None]:
        if not isinstance(listed, list) or not listed:
            part.note("branches", "list_expected", "write a list of at least one branch")
            listed = []
        names: set[str] = set()
        entries = [
            Fields(self.problems, around.child("branches", str(index)).pointer, value)
            for index, value in enumerate(listed)
        ]
        read = [self._branch(fields, around, names, conditional=True) for fields in entries]
        if otherwise is not None:
            read.append(self._branch(otherwise, around, names, conditional=False))
        return read

    def _branch(
        self, fields: Fields, around: Place, names: set[str], *, conditional: bool
    ) -> Branch | None:
        name = fields.name("name", required=conditional)
        if name is None and not conditional and "name" not in fields:
            name = "otherwise"
        when = _read_expression(fields) if conditional else None
        value = fields.raw("flow")
        fields.close()
        if name is None or value is None:
            return None
        if name in names:
            self.problems.add(fields.path, "duplicate_name", f"{name!r} names a branch already")
        names.add(name)
        below = Place(fields.at("flow"), around.path(name), around.depth + 1)
        body = self._body(value, below)
        self.flow.pointers[below.prefix] = fields.path
        return Branch(name, below.prefix, body or SequenceNode(()), when)


def _read_expression(fields: Fields) -> str | None:
    value = fields.raw("when")
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_EXPRESSION_LENGTH:
        fields.note("when", "text_expected", f"write 1 to {MAX_EXPRESSION_LENGTH} characters")
        return None
    return value


def _check_contracts(fields: Fields, step: StepDefinition) -> None:
    for section, contract in (("input", step.payload), ("output", step.output)):
        if section in fields and (contract is None or contract.content_type != "application/json"):
            fields.note(
                section,
                "contract_missing",
                f"only a JSON contract can be mapped: declare it for step {step.name!r}",
            )
