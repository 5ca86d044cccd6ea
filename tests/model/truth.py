"""Ground truth: what the engine says against what really happened, written without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sagabus_core.definitions import Definition
from sagabus_core.definitions.model import StepKind
from sagabus_core.engine import Snapshot
from sagabus_core.vocabulary import SagaStatus

from tests.model.participants import Part, happened, undone

__all__ = ["untrue"]


def untrue(
    definition: Definition, saga: Snapshot, parts: Mapping[str, Part]
) -> tuple[str, ...]:
    """Return everything that the saga claims and that is not so."""
    return tuple(_untrue(definition, saga, parts))


def _untrue(
    definition: Definition, saga: Snapshot, parts: Mapping[str, Part]
) -> Iterator[str]:
    for path, part in parts.items():
        real = happened(part) and not undone(part)
        activation = saga.activations.get(path)
        state = None if activation is None else str(activation.state)
        if saga.status is SagaStatus.COMPENSATED and real:
            yield f"TRUTH COMPENSATED, but the effect of {path} remains"
        if saga.status is SagaStatus.COMPLETED and real != _wanted(saga, definition, path):
            yield f"TRUTH COMPLETED, but the effect of {path} is {'there' if real else 'missing'}"
        if state == "SUCCEEDED" and not happened(part):
            yield f"TRUTH {path} is SUCCEEDED, but it never happened"
        if state in {"REJECTED", "CANCELLED"} and happened(part):
            yield f"TRUTH {path} is {state}, but it happened"
        if undone(part) and not happened(part):
            yield f"TRUTH {path} was undone without having happened"
        if undone(part) and definition.nodes[path].step.kind is not StepKind.COMPENSATABLE:
            yield f"TRUTH {path} was undone, which nothing may undo"
    for key, reason in saga.reasons.items():
        if reason.endswith("conflict"):
            yield f"TRUTH conflict reached: {key} {reason}"


def _wanted(saga: Snapshot, definition: Definition, path: str) -> bool:
    """Whether a completed saga claims the effect: everything outside of untaken branches."""
    for choice, taken in saga.branches.items():
        for branch in definition.choices[choice].branches:
            if path.startswith(f"{branch.path}.") and branch.name != taken:
                return False
    return True
