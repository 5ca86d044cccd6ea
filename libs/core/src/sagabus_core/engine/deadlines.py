"""Time: which deadlines live, what happens when they pass, and the one armed wake-up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from sagabus_core.engine.abort import set_abort
from sagabus_core.engine.draft import Draft, activation_key
from sagabus_core.engine.effects import ArmWakeup, FactKind, MetricName
from sagabus_core.engine.forward import apply_move, time_out
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.snapshot import Activation, Member, Plan, Track
from sagabus_core.engine.table import forward_move, member_move, profile_of
from sagabus_core.engine.undo import apply_undo_move
from sagabus_core.engine.vocabulary import ForwardState, MemberState
from sagabus_core.vocabulary import Direction

__all__ = [
    "DISARM_AFTER_MS",
    "EARLY_REARM_MS",
    "arm",
    "earliest_deadline",
    "fire_due",
    "live_tracks",
]

EARLY_REARM_MS: Final = 1_000
"""An early delivery re-arms at least this much later, or two clocks could play ping-pong."""

DISARM_AFTER_MS: Final = 180_000
"""A terminal saga takes back a wake-up that is further away than this."""

_RUNNING_UNDO: Final = frozenset({MemberState.COMPENSATING, MemberState.RESOLVING})


class _Timed(Protocol):
    @property
    def live(self) -> Mapping[str, Activation]: ...
    @property
    def members(self) -> Mapping[str, Member]: ...
    @property
    def plan(self) -> Plan | None: ...
    @property
    def deadline_passed(self) -> bool: ...


def live_tracks(view: _Timed) -> list[tuple[str, Track]]:
    """Return what may hold deadlines: open activations, and running members of the plan."""
    live: list[tuple[str, Track]] = [*view.live.items()]
    if view.plan is not None:
        undoing = ((path, view.members[path]) for path in view.plan.members)
        live.extend(pair for pair in undoing if pair[1].state in _RUNNING_UNDO)
    return live


def earliest_deadline(view: _Timed, deadline_at_ms: int | None) -> int | None:
    """Return the earliest live deadline, or None where nothing is waited for."""
    times = [] if view.deadline_passed or deadline_at_ms is None else [deadline_at_ms]
    for _, track in live_tracks(view):
        at_ms = _earliest_of(track)
        if at_ms is not None:
            times.append(at_ms)
    return min(times) if times else None


def _earliest_of(track: Track) -> int | None:
    earliest = track.deadline_at_ms
    for at_ms in (track.retry_at_ms, track.budget_at_ms):
        if at_ms is not None and (earliest is None or at_ms < earliest):
            earliest = at_ms
    return earliest


def fire_due(draft: Draft) -> None:
    """Let everything act whose time has come; as soon as a person is needed the rest waits."""
    deadline = draft.base.deadline_at_ms
    if deadline is not None and deadline <= draft.now_at_ms and not draft.deadline_passed:
        _pass_instance_deadline(draft)
    for path, track in live_tracks(draft):
        if not draft.active:
            return
        given = _due(track, draft.now_at_ms)
        if given is not None:
            _fire(draft, path, track, given)


def _due(track: Track, now_at_ms: int) -> Input | None:
    if track.halted:
        return None
    times = (
        (track.budget_at_ms, Input.BUDGET_OVER),
        (track.deadline_at_ms, Input.ATTEMPT_TIMEOUT),
        (track.retry_at_ms, Input.RETRY_DUE),
    )
    return next((given for at, given in times if at is not None and at <= now_at_ms), None)


def _fire(draft: Draft, path: str, track: Track, given: Input) -> None:
    draft.fact(FactKind.DEADLINE, path, track.state, given)
    match track:
        case Activation():
            profile = profile_of(draft.step(path))
            apply_move(draft, path, track, forward_move(profile, track.state, given))
        case Member():
            apply_undo_move(draft, path, track, member_move(track.state, given))


def _pass_instance_deadline(draft: Draft) -> None:
    """Before a pivot: turn back, and treat what is executing as timed out. Else: only tell."""
    draft.deadline_passed = True
    decided = draft.abort is not None or draft.direction is Direction.COMPENSATING
    draft.fact(FactKind.DEADLINE, None, None, "instance_deadline")
    if decided or draft.pivot_succeeded:
        draft.metric(MetricName.DEADLINE_PASSED, draft.definition.workflow)
        draft.deadline_told = True
        return
    set_abort(draft, "instance_deadline", draft.base.saga_id)
    for path, activation in tuple(draft.live.items()):
        waits = activation.halted or activation_key(path) in draft.reasons
        if activation.state is ForwardState.EXECUTING and not waits:
            time_out(draft, path, activation)


def arm(draft: Draft) -> None:
    """Arm the one wake-up no later than the earliest live deadline; an earlier one is left."""
    if not draft.active:
        if draft.terminal:
            _disarm(draft)
        return
    at_ms = earliest_deadline(draft, draft.base.deadline_at_ms)
    if at_ms is None or (draft.armed_at_ms is not None and draft.armed_at_ms <= at_ms):
        return
    if draft.early_wakeup:
        at_ms = max(at_ms, draft.now_at_ms + EARLY_REARM_MS)
    _request(draft, at_ms)


def _disarm(draft: Draft) -> None:
    armed = draft.armed_at_ms
    if armed is not None and armed - draft.now_at_ms > DISARM_AFTER_MS:
        _request(draft, None)
    draft.armed_at_ms = None


def _request(draft: Draft, at_ms: int | None) -> None:
    draft.generation += 1
    draft.armed_at_ms = at_ms
    draft.effects.append(ArmWakeup(draft.base.saga_id, draft.generation, at_ms))
