"""Ground truth: what the engine says against what really happened, written without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.model.messages import Answer
from tests.model.participants import Part, happened, undone

from sagabus_core.definitions import Definition
from sagabus_core.definitions.model import StepKind
from sagabus_core.engine import Activation, Member, Snapshot
from sagabus_core.vocabulary import SagaStatus

__all__ = ["misjudged", "untrue"]

_ASKING = {
    "EXECUTING": "E", "CANCELLING": "C", "COMPENSATING": "K",
    ("RESOLVING", Activation): "RE", ("RESOLVING", Member): "RK",
}  # fmt: skip
_WEAK = {"U", "H", "P", "TH"}
_OPEN = {"EXECUTING", "CANCELLING", "RESOLVING", "COMPENSATING"}


def untrue(definition: Definition, saga: Snapshot, parts: Mapping[str, Part]) -> tuple[str, ...]:
    """Return everything that the saga claims and that is not so."""
    return tuple(_untrue(definition, saga, parts))


def _untrue(definition: Definition, saga: Snapshot, parts: Mapping[str, Part]) -> Iterator[str]:
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


def misjudged(
    before: Snapshot, after: Snapshot, answer: Answer, *, retriable: bool
) -> tuple[str, ...]:
    """Return a breach of rule 5: facts from any attempt, hints from the one that is in question."""
    undo = answer.channel in {"K", "RK"}
    old = before.members.get(answer.path) if undo else before.activations.get(answer.path)
    new = after.members.get(answer.path) if undo else after.activations.get(answer.path)
    if old is None or new is None or before.status.is_terminal:
        return ()
    refused = answer.word == "R" and (answer.channel == "RK" or retriable)
    if answer.word not in _WEAK and not refused:
        return (f"FACT {answer} settled nothing",) if new.state in _OPEN else ()
    asking = _ASKING.get(old.state) or _ASKING.get((str(old.state), type(old)))
    asked = asking == answer.channel and answer.attempt == old.attempts.get(answer.channel)
    if asked and (asking not in {"RE", "RK"} or old.resolve_used):  # asked in this very stay
        return ()
    same = _standing(old) == _standing(new) or old.state not in _OPEN
    if same and old.state == new.state and before.reasons == after.reasons:
        return ()
    return (f"HINT {answer} counted although it was not asked",)


def _standing(track: Activation | Member) -> tuple[object, ...]:
    waits = (track.deadline_at_ms, track.retry_at_ms, track.budget_at_ms)
    counts = (track.used, track.resolve_used, track.recovery_operation_id)
    return (*(at is None for at in waits), *counts, track.halted)
