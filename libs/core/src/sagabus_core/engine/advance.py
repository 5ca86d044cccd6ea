"""The way forward: choices are made, payloads are built, what may start is found."""

from __future__ import annotations

from sagabus_core.definitions.model import ChoiceNode, StepNode
from sagabus_core.engine.draft import Draft, activation_key, branch_key
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.frontier import steps_below, walk_on
from sagabus_core.engine.mapping import build_payload
from sagabus_core.engine.vocabulary import ManualReason
from sagabus_core.errors import ConditionError, InvalidValue
from sagabus_core.payload import Payload

__all__ = ["choose", "payload_for", "ready_steps"]


def ready_steps(draft: Draft) -> tuple[list[StepNode], bool]:
    """Return the steps that may start now, and whether the whole flow is finished.

    Choices on the way are made first; one that cannot be made asks for a person.
    """
    if draft.ahead is None:
        return [], False
    while True:
        steps: list[StepNode] = []
        choices: list[ChoiceNode] = []
        finished = walk_on(draft.ahead, draft, steps, choices)
        if not choices:
            return steps, finished
        for choice in choices:
            _evaluate(draft, choice)
        if draft.reasons:
            return [], False


def _evaluate(draft: Draft, choice: ChoiceNode) -> None:
    evaluate = draft.definition.conditions.evaluate
    try:
        taken = next(
            branch.name
            for branch in choice.branches
            if branch.when is None
            or evaluate(branch.when, draft.variables, draft.definition.variables)
        )
    except ConditionError:
        draft.set_reason(branch_key(choice.path), ManualReason.CONDITION_ERROR)
        return
    choose(draft, choice, taken)


def choose(draft: Draft, choice: ChoiceNode, taken: str) -> None:
    """Take a branch, once and for all; everything in the others is SKIPPED."""
    draft.branches = {**draft.branches, choice.path: taken}
    skipped = [
        step.path
        for branch in choice.branches
        if branch.name != taken
        for step in steps_below(branch.body)
    ]
    draft.fact(FactKind.BRANCH, choice.path, None, taken, {"skipped": skipped})


def payload_for(draft: Draft, path: str) -> Payload | None:
    """Return what an EXECUTE carries; one that breaks its contract asks for a person.

    Every attempt carries the same: nothing can write a variable that an open activation reads.
    """
    node = draft.definition.nodes[path]
    if path in draft.payloads:
        return draft.payloads[path]
    if node.input is None or node.step.payload is None:
        return None
    try:
        return build_payload(node.input, node.step.payload, draft.variables)
    except InvalidValue:
        draft.set_reason(activation_key(path), ManualReason.COMMAND_PAYLOAD_INVALID)
        return None
