"""The compensation plan: what would be undone, freezing it, and the proof before COMPENSATED."""

from __future__ import annotations

from sagabus_core.canonical import JsonValue, canonical_bytes, sha256_hex
from sagabus_core.definitions.model import Definition
from sagabus_core.engine.draft import Draft
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.frontier import View
from sagabus_core.engine.inputs import ANSWERS, Input
from sagabus_core.engine.snapshot import Activation, Member, Plan, Track
from sagabus_core.engine.table import FACTS
from sagabus_core.engine.vocabulary import Channel, ForwardState, MemberState
from sagabus_core.vocabulary import Direction

__all__ = ["build_plan", "facts_of", "freeze", "is_proved"]

_YES = frozenset({Input.EXECUTE_SUCCEEDED, Input.FOUND_SUCCEEDED, Input.RESOLVED_SUCCEEDED})


def facts_of(track: Track) -> frozenset[Input]:
    """Return every definitive answer of a track, from the recorded answers alone."""
    found: set[Input] = set()
    for key, letters in track.answers.items():
        channel = key.rstrip("0123456789")
        found.update(
            _FACT_LETTERS[channel][x] for x in letters.split("+") if x in _FACT_LETTERS[channel]
        )
    return frozenset(found)


_FACT_LETTERS: dict[str, dict[str, Input]] = {
    channel: {
        letter: given
        for (asked, *_), (given, letter) in ANSWERS.items()
        if asked is channel and given in FACTS
    }
    for channel in Channel
}


def build_plan(definition: Definition, view: View, saga_id: str, version: int) -> Plan:
    """Return the plan that the facts make: every success with something to undo, newest first."""
    members = sorted(
        (
            (activation.success_sequence or 0, path)
            for path, activation in view.activations.items()
            if activation.state is ForwardState.SUCCEEDED
            and definition.nodes[path].step.compensate is not None
        ),
        reverse=True,
    )
    content: JsonValue = ["plan", saga_id, [[path, sequence] for sequence, path in members]]
    digest = sha256_hex(canonical_bytes(content))
    return Plan(version, digest, tuple(path for _, path in members))


def freeze(draft: Draft) -> None:
    """Freeze the plan, for the first time or after an operator's override.

    A member that was known before keeps its state: what is undone stays undone.
    """
    version = draft.plan.version + 1 if draft.plan else 1
    plan = build_plan(draft.definition, draft, draft.base.saga_id, version)
    draft.fact(
        FactKind.PLAN,
        None,
        draft.plan.digest if draft.plan else None,
        plan.digest,
        {"version": version, "members": plan.members},
    )
    draft.plan = plan
    draft.direction = Direction.COMPENSATING
    pending = (path for path in plan.members if path not in draft.members)
    draft.members = {**draft.members, **dict.fromkeys(pending, Member(MemberState.PENDING))}


def is_proved(draft: Draft) -> bool:
    """Whether the frozen plan is what the facts make, and every member is compensated."""
    plan = draft.plan
    if plan is None:
        return False
    again = build_plan(draft.definition, draft, draft.base.saga_id, plan.version)
    backed = all(_is_backed(draft.activations[path], _YES) for path in plan.members)
    undone = all(
        draft.members[path].state is MemberState.COMPENSATED
        and _is_backed(
            draft.members[path], frozenset({Input.UNDO_SUCCEEDED, Input.UNDO_FOUND_DONE})
        )
        for path in plan.members
    )
    return again == plan and backed and undone


def _is_backed(track: Activation | Member, wanted: frozenset[Input]) -> bool:
    return track.attested or bool(facts_of(track) & wanted)
