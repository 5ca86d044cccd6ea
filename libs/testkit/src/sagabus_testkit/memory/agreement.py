"""Whether definition and handlers speak of the same steps: found before a saga starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sagabus_core.definitions import Definition, StepDefinition, StepKind
from sagabus_participant import Participant, RegisteredStep
from sagabus_testkit.memory.errors import KitError

__all__ = ["check_agreement", "disagreements"]


def check_agreement(definition: Definition, participants: Mapping[str, Participant]) -> None:
    """Raise `KitError` with everything in which definition and handlers disagree.

    `step_without_handler`: a step of the flow has neither a handler nor a stub;
    `handlers_disagree`: a handler is not what the definition says about its step.
    """
    used = {node.step.name: node.step for node in definition.nodes.values()}
    homeless = [
        f"{step.name} (of {step.participant})"
        for step in used.values()
        if step.participant not in participants
        or participants[step.participant].find(step.name) is None
    ]
    if homeless:
        raise KitError(
            "step_without_handler",
            f"no handler for {', '.join(homeless)}: give the kit the participant, or "
            f"kit.stub({homeless[0].partition(' ')[0]!r}, Succeeded(...))",
        )
    found = list(disagreements(used.values(), participants))
    if found:
        raise KitError("handlers_disagree", "; ".join(found))


def disagreements(
    steps: Iterable[StepDefinition], participants: Mapping[str, Participant]
) -> Iterator[str]:
    """Yield one sentence per difference between a step's definition and its registration."""
    for step in steps:
        handler = participants[step.participant].find(step.name)
        if handler is not None:
            yield from (f"{step.name}: {each}" for each in _differences(step, handler))


def _differences(step: StepDefinition, handler: RegisteredStep) -> Iterator[str]:
    rules = handler.rules
    if step.retriable != rules.retriable:
        yield f"the definition says {step.kind}, the handler retriable={rules.retriable}"
    if step.compensate is not None and not rules.has_compensate:
        yield "the definition compensates it, the handler has no `compensate`"
    if step.cancellable and not (rules.local or rules.has_cancel):
        yield "the definition cancels it, the external handler has no `cancel`"
    if step.kind is not StepKind.RETRIABLE and not (rules.local or rules.has_resolve):
        yield "the definition resolves it, the external handler has no `resolve`"
    if step.payload is not None and step.payload.schema_id != handler.input_schema:
        yield f"it is sent {step.payload.schema_id}, the handler takes {handler.input_schema}"
    if step.output is not None and step.output.schema_id != handler.output_schema:
        yield f"it is to give {step.output.schema_id}, the handler gives {handler.output_schema}"
