"""Routing of a participant's answer: facts from any attempt, hints from the current one."""

from __future__ import annotations

from typing import Final

from sagabus_core.canonical import JsonValue
from sagabus_core.engine.draft import Draft, reason_key
from sagabus_core.engine.effects import FactKind, MetricName
from sagabus_core.engine.events import ResultReceived
from sagabus_core.engine.forward import apply_move
from sagabus_core.engine.inputs import ANSWERS, MEANINGS, Input
from sagabus_core.engine.snapshot import Activation, Track, answered
from sagabus_core.engine.table import (
    FACTS,
    Move,
    Profile,
    forward_move,
    is_fact,
    member_move,
    profile_of,
)
from sagabus_core.engine.undo import apply_undo_move
from sagabus_core.engine.vocabulary import CHANNELS, UNDO_CHANNELS, Channel, ManualReason
from sagabus_core.errors import AttemptNeverIssued, InvalidValue

__all__ = ["apply_result"]

_CONFLICT: Final = Move.CONFLICT
_NOTE: Final = Move.NOTE
_ANSWER: Final = FactKind.ANSWER


def apply_result(draft: Draft, event: ResultReceived) -> None:
    """Record an answer and route it; the same answer to the same attempt is absorbed.

    Raises `AttemptNeverIssued` for an answer to what was never asked.
    """
    channel, given, letter = _read(event)
    track = _find(draft, event, channel)
    key = channel + str(event.attempt)
    before = track.answers.get(key)
    if before is not None and letter in before.split("+"):
        return
    move = _route(draft, event, track, (channel, given))
    if draft.terminal and move is not _CONFLICT:
        move = _NOTE  # evidence only: terminal is final, also for what a person closed
    answers = {**track.answers, key: letter if before is None else f"{before}+{letter}"}
    recorded = answered(track, answers)
    draft.put(event.activation, recorded)
    _journal(draft, event, recorded, move)
    if move is _CONFLICT:
        _conflict(draft, event, recorded, before)
    elif isinstance(recorded, Activation):
        apply_move(draft, event.activation, recorded, move, event.output)
    else:
        apply_undo_move(draft, event.activation, recorded, move)


def _read(event: ResultReceived) -> tuple[Channel, Input, str]:
    meaning = MEANINGS.get((event.phase, event.target, event.status, event.terminal_status))
    if meaning is None:
        raise InvalidValue(
            "invalid_result",
            f"{event.phase} (target {event.target}) never answers {event.status} "
            f"(terminal status {event.terminal_status})",
        )
    return meaning


def _find(draft: Draft, event: ResultReceived, channel: Channel) -> Track:
    path = event.activation
    track: Track | None = (
        draft.members.get(path) if channel in UNDO_CHANNELS else draft.activations.get(path)
    )
    if track is None or not 1 <= event.attempt <= track.attempts.get(channel, 0):
        raise AttemptNeverIssued(
            "attempt_never_issued",
            f"{event.phase} (target {event.target}) attempt {event.attempt} of {path!r} "
            "was never issued",
        )
    return track


def _route(
    draft: Draft, event: ResultReceived, track: Track, answer: tuple[Channel, Input]
) -> Move:
    """Return the move of an answer; a hint from an attempt that is not the current one is a note.

    The table itself tells in which state a hint is asked for.
    """
    channel, given = answer
    current = event.attempt == track.attempts.get(channel)
    if isinstance(track, Activation):
        profile = profile_of(draft.step(event.activation))
        if current or is_fact(profile, given):
            return forward_move(profile, track.state, given)
    elif given in FACTS or (current and (channel is Channel.COMPENSATE or track.resolve_used)):
        # `resolve_used`: a RESOLVE of an earlier stay does not answer what this one has yet to ask.
        return member_move(track.state, given)
    return _NOTE


def _journal(draft: Draft, event: ResultReceived, track: Track, move: Move) -> None:
    subject = reason_key(event.activation, track)
    detail = _evidence(event)
    detail["move"] = move
    draft.fact(_ANSWER, subject, track.state, None, detail, event.output)
    if move is _NOTE:
        draft.metric(MetricName.SUPERSEDED, event.phase)


def _evidence(event: ResultReceived) -> dict[str, JsonValue]:
    told: dict[str, JsonValue] = {
        "phase": event.phase,
        "attempt": event.attempt,
        "status": event.status,
    }
    if event.target is not None:
        told["target"] = event.target
    if event.terminal_status is not None:
        told["terminal_status"] = event.terminal_status
    if event.reason_code is not None:
        told["reason_code"] = event.reason_code
    if event.reason_detail is not None:
        told["reason_detail"] = event.reason_detail
    return told


def _conflict(draft: Draft, event: ResultReceived, track: Track, before: str | None) -> None:
    """Two facts exclude each other: both are kept, a person decides (a terminal saga stays)."""
    letters = () if before is None else before.split("+")
    channel = CHANNELS[event.phase, event.target]
    within = any(
        is_fact(Profile.CANCELLABLE, given)
        for (asked, *_), (given, letter) in ANSWERS.items()
        if asked is channel and letter in letters
    )
    reason = (
        ManualReason.ATTEMPT_OUTCOME_CONFLICT if within else ManualReason.CROSS_PHASE_FACT_CONFLICT
    )
    draft.metric(MetricName.CONFLICT, reason)
    if not draft.terminal:
        draft.set_reason(reason_key(event.activation, track), reason)
