"""Moves that both lives share: entering a state, trying again, halting, settling."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions.model import Backoff, StepDefinition, Timing
from sagabus_core.engine.draft import Draft, reason_key
from sagabus_core.engine.effects import IssueCommand, MetricName
from sagabus_core.engine.records import make
from sagabus_core.engine.snapshot import Activation, Member, Track
from sagabus_core.engine.vocabulary import Channel, ForwardState, ManualReason, MemberState
from sagabus_core.errors import IllegalTransition
from sagabus_core.payload import Payload

__all__ = [
    "ABOUT",
    "Ask",
    "ask_of",
    "backoff_ms",
    "command_for",
    "enter_cancelling",
    "enter_resolving",
    "exhaust_budget",
    "halt",
    "timing_of",
    "try_again",
]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a state asks its participant, which counter it uses up, and what giving up is."""

    channel: Channel
    used: str
    exhausted: ManualReason
    halted: ManualReason


ABOUT: Final[Mapping[Channel, Mapping[str, JsonValue]]] = {
    channel: {"phase": channel.phase, "target": channel.target} for channel in Channel
}
"""The phase and its target, as the journal names them."""

_EXECUTE: Final = Channel.EXECUTE
_FORWARD: Final = {
    ForwardState.EXECUTING: Ask(
        Channel.EXECUTE,
        "used",
        ManualReason.RETRIABLE_ATTEMPTS_EXHAUSTED,
        ManualReason.STEP_HALTED,
    ),
    ForwardState.CANCELLING: Ask(
        Channel.CANCEL, "used", ManualReason.CANCEL_ATTEMPTS_EXHAUSTED, ManualReason.STEP_HALTED
    ),
    ForwardState.RESOLVING: Ask(
        Channel.RESOLVE_EXECUTE,
        "resolve_used",
        ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED,
        ManualReason.RESOLUTION_HALTED,
    ),
}
_RESOLVING: Final = {Activation: ForwardState.RESOLVING, Member: MemberState.RESOLVING}
_UNDO: Final = {
    MemberState.COMPENSATING: Ask(
        Channel.COMPENSATE,
        "used",
        ManualReason.COMPENSATION_ATTEMPTS_EXHAUSTED,
        ManualReason.COMPENSATION_HALTED,
    ),
    MemberState.RESOLVING: Ask(
        Channel.RESOLVE_COMPENSATE,
        "resolve_used",
        ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED,
        ManualReason.RESOLUTION_HALTED,
    ),
}


def ask_of(track: Track) -> Ask:
    """Return what an open track asks; a settled one asks nothing (`IllegalTransition`)."""
    ask = _FORWARD.get(track.state) if isinstance(track, Activation) else _UNDO.get(track.state)
    if ask is None:
        raise IllegalTransition("illegal_transition", f"{track.state} asks nobody anything")
    return ask


def timing_of(step: StepDefinition, channel: Channel) -> Timing:
    """Return the limits of a channel; validation promises that they exist where they are used."""
    if channel is _EXECUTE:
        return step.execute
    timing: Timing | None
    match channel:
        case Channel.CANCEL:
            timing = step.cancel
        case Channel.COMPENSATE:
            timing = step.compensate
        case Channel.RESOLVE_EXECUTE | Channel.RESOLVE_COMPENSATE:
            timing = step.resolve
    if timing is None:
        raise IllegalTransition("illegal_transition", f"step {step.name} declares no {channel}")
    return timing


def backoff_ms(backoff: Backoff, retry: int, command_id: str) -> int:
    """Return the wait before retry number `retry` (from 1): between half and all of the backoff.

    The jitter is taken from the id of the command to come, so the same decision is made again
    whenever it is repeated, and a thousand sagas still do not retry in step.
    """
    factor: float = float(backoff.factor) ** min(retry - 1, 64)
    whole = min(backoff.initial_ms * factor, float(backoff.max_ms))
    share = UUID(command_id).int >> 96
    return max(1, int(whole * (0.5 + share / 2**33)))


def command_for(
    draft: Draft,
    path: str,
    channel: Channel,
    attempt: int,
    operation_id: str | None = None,
    payload: Payload | None = None,
) -> IssueCommand:
    """Return a command of a channel, expiring after its phase's timeout."""
    step = draft.step(path)
    base = draft.base
    expires_at_ms = draft.now_at_ms + timing_of(step, channel).timeout_ms
    # fmt: off
    return make(IssueCommand, (
        base.saga_id, base.definition_version, path, step.name, step.participant,
        channel, attempt, expires_at_ms, operation_id, payload,
    ))
    # fmt: on


def try_again(draft: Draft, path: str, track: Track) -> None:
    """Schedule the next attempt after backoff, or ask for a person when they are used up."""
    if track.retry_at_ms is not None:
        return  # the timeout scheduled it already; a late weak answer does not move it
    ask = ask_of(track)
    timing = timing_of(draft.step(path), ask.channel)
    used: int = getattr(track, ask.used)
    if used >= timing.attempts:
        draft.change(path, track, deadline_at_ms=None)
        draft.set_reason(reason_key(path, track), ask.exhausted)
        return
    following = command_for(draft, path, ask.channel, track.attempts.get(ask.channel, 0) + 1)
    delay = backoff_ms(timing.backoff, max(used, 1), following.command_id)
    draft.change(path, track, deadline_at_ms=None, retry_at_ms=draft.now_at_ms + delay)
    draft.metric(MetricName.RETRY, following.phase)


def enter_cancelling(draft: Draft, path: str, track: Activation, *, late: bool) -> None:
    """Raise the barrier: the EXECUTE is superseded by a CANCEL, issued when commands are."""
    draft.change(
        path,
        track,
        state=ForwardState.CANCELLING,
        used=0,
        late=track.late or late,
        deadline_at_ms=None,
        retry_at_ms=None,
    )


def enter_resolving(draft: Draft, path: str, track: Track, *, late: bool = False) -> None:
    """Ask what happened; the budget of this stay begins now."""
    resolve = timing_of(draft.step(path), Channel.RESOLVE_EXECUTE)
    budget = None if resolve.budget_ms is None else draft.now_at_ms + resolve.budget_ms
    changes: dict[str, object] = {
        "resolve_used": 0,
        "deadline_at_ms": None,
        "retry_at_ms": None,
        "budget_at_ms": budget,
    }
    if isinstance(track, Activation):
        changes["late"] = track.late or late
    state = _RESOLVING[type(track)]
    draft.change(path, track, state=state, **changes)


def halt(draft: Draft, path: str, track: Track) -> None:
    """Mark: the participant will not go on by itself. This settles nothing."""
    draft.change(path, track, halted=True, deadline_at_ms=None, retry_at_ms=None)
    draft.set_reason(reason_key(path, track), ask_of(track).halted)


def exhaust_budget(draft: Draft, path: str, track: Track) -> None:
    """Give up asking: the longest total time in RESOLVING is over."""
    draft.change(path, track, budget_at_ms=None, deadline_at_ms=None, retry_at_ms=None)
    draft.set_reason(reason_key(path, track), ManualReason.RESOLUTION_BUDGET_EXHAUSTED)
