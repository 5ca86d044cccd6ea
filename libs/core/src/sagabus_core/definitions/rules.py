"""What makes a flow unsafe: around pivots, and in what conditions and payloads read."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations

from sagabus_core.definitions.conditions import Conditions
from sagabus_core.definitions.flow import Flow
from sagabus_core.definitions.model import (
    Branch,
    ChoiceNode,
    Node,
    ParallelNode,
    SequenceNode,
    StepKind,
    StepNode,
    VariableType,
)
from sagabus_core.definitions.problems import Problems
from sagabus_core.errors import ConditionError

__all__ = ["PivotRules", "VariableRules", "written"]

_BEFORE, _AFTER = frozenset({"before"}), frozenset({"after"})


class PivotRules:
    """Nothing beside a pivot, only retriable steps after it, a retriable step only after one."""

    def __init__(self, problems: Problems, flow: Flow) -> None:
        self._problems = problems
        self._flow = flow

    def check(self, root: Node) -> None:
        """Note every step that an abort could not unwind, or that could end in a dead end."""
        self._walk(root, _BEFORE, beside=False)

    def _walk(self, node: Node, sides: frozenset[str], *, beside: bool) -> frozenset[str]:
        """Return on which sides of a pivot a path can be behind `node`."""
        match node:
            case StepNode():
                return self._step(node, sides, beside=beside)
            case SequenceNode():
                for child in node.children:
                    sides = self._walk(child, sides, beside=beside)
                return sides
            case ParallelNode():
                ends = [self._walk(each.body, sides, beside=True) for each in node.branches]
                return frozenset().union(*ends) if ends else sides
            case ChoiceNode():
                ends = [self._walk(each.body, sides, beside=beside) for each in node.branches]
                return frozenset().union(*ends) if ends else sides

    def _step(self, node: StepNode, sides: frozenset[str], *, beside: bool) -> frozenset[str]:
        pointer = self._flow.pointers[node.path]
        if node.step.kind is StepKind.RETRIABLE:
            if "before" in sides:
                self._problems.add(
                    pointer, "retriable_without_pivot", "put a pivot before it on every path"
                )
            return sides
        if "after" in sides:
            self._problems.add(
                pointer, "not_retriable_after_pivot", "after a pivot every step is retriable"
            )
        if node.step.kind is not StepKind.PIVOT:
            return sides
        if beside:
            self._problems.add(
                pointer, "beside_pivot", "nothing runs beside a pivot: take it out of the parallel"
            )
        return _AFTER


class VariableRules:
    """Every variable that is read is set on every path before; branches do not race for one."""

    def __init__(
        self,
        problems: Problems,
        flow: Flow,
        variables: Mapping[str, VariableType],
        conditions: Conditions,
    ) -> None:
        self._problems = problems
        self._flow = flow
        self._variables = variables
        self._conditions = conditions

    def check(self, root: Node, start: frozenset[str]) -> frozenset[str]:
        """Note every read of what may not be set; return what is set at the end on every path."""
        return self._walk(root, start)

    def _walk(self, node: Node, known: frozenset[str]) -> frozenset[str]:
        match node:
            case StepNode():
                self._reads(node, known)
                return known | {variable for variable, _ in node.output}
            case SequenceNode():
                for child in node.children:
                    known = self._walk(child, known)
                return known
            case ParallelNode():
                self._check_races(node)
                ends = [self._walk(each.body, known) for each in node.branches]
                return known.union(*ends)
            case ChoiceNode():
                self._check_conditions(node, known)
                ends = [self._walk(each.body, known) for each in node.branches]
                return ends[0].intersection(*ends) if ends else known

    def _reads(self, node: StepNode, known: frozenset[str]) -> None:
        for name, variable in node.input or ():
            if variable not in known:
                self._problems.add(
                    f"{self._flow.pointers[node.path]}/input/{name}",
                    "variable_unset",
                    f"{variable!r} is not set on every path before: set it, or do not read it",
                )

    def _check_races(self, node: ParallelNode) -> None:
        for one, other in permutations(node.branches, 2):
            sets = written(one.body)
            shared = sets & (_read(other.body) | written(other.body))
            shared |= self._asked(other.body, sets - shared)
            if shared:
                self._problems.add(
                    self._flow.pointers[node.path],
                    "variable_race",
                    f"branch {one.name!r} sets {', '.join(sorted(shared))}, which branch "
                    f"{other.name!r} uses at the same time: use two variables",
                )

    def _asked(self, node: Node, among: frozenset[str]) -> frozenset[str]:
        """Return which of some variables the conditions of a subtree read."""
        match node:
            case StepNode():
                return frozenset()
            case SequenceNode():
                return frozenset().union(*(self._asked(each, among) for each in node.children))
            case ParallelNode() | ChoiceNode():
                below = (self._asked(each.body, among) for each in node.branches)
                asked = (self._reads_of(each.when, among) for each in node.branches if each.when)
                return frozenset().union(*below, *asked)

    def _reads_of(self, when: str, among: frozenset[str]) -> frozenset[str]:
        if self._conditions.check(when, self._variables):
            return frozenset()  # a problem of its own
        others = ({n: t for n, t in self._variables.items() if n != each} for each in among)
        pairs = zip(among, others, strict=True)
        return frozenset(each for each, rest in pairs if self._conditions.check(when, rest))

    def _check_conditions(self, node: ChoiceNode, known: frozenset[str]) -> None:
        decided: str | None = None
        seen: set[str] = set()
        for branch in node.branches:
            pointer = self._flow.pointers[branch.path]
            if decided is not None or branch.when in seen:
                why = f"{decided!r} is always taken" if decided else "its condition came before"
                self._problems.add(pointer, "unreachable_branch", f"remove it: {why}")
            if branch.when is None or decided is not None:
                continue
            seen.add(branch.when)
            if self._check_expression(branch.when, f"{pointer}/when", known):
                decided = self._check_constant(branch, pointer)

    def _check_expression(self, when: str, pointer: str, known: frozenset[str]) -> bool:
        found = self._conditions.check(when, self._variables)
        for sentence in found:
            self._problems.add(pointer, "invalid_condition", sentence)
        if found:
            return False
        unset = self._conditions.check(when, {n: self._variables[n] for n in sorted(known)})
        for sentence in unset:
            self._problems.add(
                pointer, "variable_unset", f"set it on every path before: {sentence}"
            )
        return not unset

    def _check_constant(self, branch: Branch, pointer: str) -> str | None:
        """Return the branch's name if it is always taken; note it if it never is."""
        when = branch.when or ""
        if self._conditions.check(when, {}):
            return None
        try:
            if self._conditions.evaluate(when, {}, {}):
                return branch.name
        except ConditionError as cause:
            self._problems.add(f"{pointer}/when", "invalid_condition", cause.detail)
            return None
        self._problems.add(pointer, "unreachable_branch", "remove it: its condition is never true")
        return None


def written(node: Node) -> frozenset[str]:
    """Return every variable that a subtree may set."""
    match node:
        case StepNode():
            return frozenset(variable for variable, _ in node.output)
        case SequenceNode():
            return frozenset().union(*(written(child) for child in node.children))
        case ParallelNode() | ChoiceNode():
            return frozenset().union(*(written(each.body) for each in node.branches))


def _read(node: Node) -> frozenset[str]:
    """Return every variable that payloads of a subtree read."""
    match node:
        case StepNode():
            return frozenset(variable for _, variable in node.input or ())
        case SequenceNode():
            return frozenset().union(*(_read(child) for child in node.children))
        case ParallelNode() | ChoiceNode():
            return frozenset().union(*(_read(each.body) for each in node.branches))
