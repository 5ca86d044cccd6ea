"""What only the locked saga can tell about a result, checked before its inbox claim."""

from __future__ import annotations

from sagabus_bus import Reason
from sagabus_core.definitions import Definition
from sagabus_core.engine.vocabulary import CHANNELS, UNDO_CHANNELS
from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.works import ResultWork

__all__ = ["result_problem", "step_problem"]


def result_problem(work: ResultWork, entry: Entry | None) -> Reason | None:
    """Return why a result must not be believed, or None.

    A refused result claims no inbox id: otherwise a forger who guesses an event id could make the
    true answer look like a repeat.
    """
    if entry is None:
        return Reason("unknown_saga", "no saga has this id; was the database restored?")
    body, saga = work.body, entry.snapshot
    version = (saga.definition_version, saga.definition_digest)
    if (body.definition_version, body.definition_digest) != version:
        return Reason(
            "definition_mismatch", f"the saga runs on version {version[0]} ({version[1]})"
        )
    problem = step_problem(work, entry.definition)
    if problem is None and not _was_issued(work, entry):
        return Reason("attempt_never_issued", "this saga never sent a command of this attempt")
    return problem


def step_problem(work: ResultWork, definition: Definition) -> Reason | None:
    """Return why a result cannot be about a step of this definition, or None."""
    body = work.body
    node = definition.nodes.get(body.activation)
    if node is None or node.step.name != body.step:
        return Reason("unknown_activation", "the definition has no such activation of this step")
    if node.step.participant != work.meta.topic.participant:
        return Reason("producer_mismatch", f"step {body.step} belongs to {node.step.participant}")
    return None


def _was_issued(work: ResultWork, entry: Entry) -> bool:
    body = work.body
    channel = CHANNELS[body.phase, body.target]
    tracks = entry.snapshot.members if channel in UNDO_CHANNELS else entry.snapshot.activations
    track = tracks.get(body.activation)
    return track is not None and body.attempt <= track.attempts.get(channel, 0)
