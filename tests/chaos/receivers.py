"""What the participants' effect journals hold, against what the orchestrator believes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from sagabus_core import ids
from sagabus_core.definitions import Definition
from sagabus_core.engine import ForwardState, MemberState, Snapshot
from sagabus_core.vocabulary import Phase
from sagabus_testkit.orders.reconcile import rows_of
from sagabus_testkit.system import PARTICIPANTS, System

__all__ = ["Effects", "missing_effects", "read_effects", "stray_effects"]

DONE: Final = "SUCCEEDED"
NOTHING: Final = "nothing"
_FAILED: Final = frozenset({ForwardState.REJECTED, ForwardState.CANCELLED})


@dataclass(frozen=True, slots=True)
class Effects:
    """The state of every effect, by participant and effect id."""

    states: Mapping[str, Mapping[str, str]]

    def state(self, participant: str, effect_id: str) -> str:
        return self.states.get(participant, {}).get(effect_id, NOTHING)


async def read_effects(system: System) -> Effects:
    """Ask every participant's own database."""
    states: dict[str, dict[str, str]] = {}
    for name in PARTICIPANTS:
        rows = await rows_of(system, name, "effects")
        states[name] = {row["effect_id"]: row["state"] for row in rows}
    return Effects(states)


def missing_effects(saga: Snapshot, definition: Definition, effects: Effects) -> Iterator[str]:
    """Name what the orchestrator takes for done, or undone, and the participant does not know."""
    for path, activation in saga.activations.items():
        found = _state(saga, definition, path, Phase.EXECUTE, effects)
        if activation.state is ForwardState.SUCCEEDED and found != DONE:
            yield f"{saga.business_key}: {path} succeeded, its participant has {found}"
    for path, member in saga.members.items():
        found = _state(saga, definition, path, Phase.COMPENSATE, effects)
        if member.state is MemberState.COMPENSATED and found != DONE:
            yield f"{saga.business_key}: {path} was undone, its participant has {found}"


def stray_effects(saga: Snapshot, definition: Definition, effects: Effects) -> Iterator[str]:
    """Name what a participant has done and an ended saga takes for not done."""
    if not saga.status.is_terminal:
        return
    for path, activation in saga.activations.items():
        found = _state(saga, definition, path, Phase.EXECUTE, effects)
        if activation.state in _FAILED and found == DONE:
            yield f"{saga.business_key}: {path} is {activation.state}, its participant has done it"


def _state(
    saga: Snapshot, definition: Definition, path: str, phase: Phase, effects: Effects
) -> str:
    effect_id = ids.effect_id(saga.saga_id, saga.definition_version, path, phase, None)
    return effects.state(definition.nodes[path].step.participant, effect_id)
