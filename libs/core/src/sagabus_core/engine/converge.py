"""After the event: decide what follows, then issue what is due, then say where the saga stands."""

from __future__ import annotations

from typing import Final

from sagabus_core.definitions.model import StepNode
from sagabus_core.engine.advance import payload_for, ready_steps
from sagabus_core.engine.deadlines import live_tracks
from sagabus_core.engine.draft import PLAN_KEY, Draft
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.plan import freeze, is_proved
from sagabus_core.engine.snapshot import Activation, Track, asked
from sagabus_core.engine.steering import (
    ABOUT,
    ask_of,
    command_for,
    enter_cancelling,
    enter_resolving,
)
from sagabus_core.engine.vocabulary import ForwardState, ManualReason, MemberState
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Direction, SagaStatus

__all__ = ["converge", "running_member", "status_of"]

_RUNNING_UNDO = (MemberState.COMPENSATING, MemberState.RESOLVING)
_FORWARD: Final = Direction.FORWARD
_COMPENSATING: Final = Direction.COMPENSATING
_RUNNING: Final = SagaStatus.RUNNING
_EXECUTING: Final = ForwardState.EXECUTING
_COMMAND: Final = FactKind.COMMAND
_FRESH = Activation(_EXECUTING)


def converge(draft: Draft) -> None:
    """Bring the saga as far as it can go without a new event.

    PAUSED and MANUAL go nowhere and issue nothing: only their status is brought up to date.
    """
    if draft.active:
        starting = _go_forward(draft) if draft.direction is _FORWARD else []
        if draft.direction is _COMPENSATING and not draft.reasons:
            _go_back(draft)
        if draft.active:
            _issue(draft, starting)
        if starting and not draft.reasons:
            return  # a first EXECUTE is issued only while RUNNING, and that is what it stays
    if not draft.terminal:
        draft.set_status(status_of(draft))


def status_of(draft: Draft) -> SagaStatus:
    """Return the status that the states make; the terminal ones are set where they are earned."""
    if draft.reasons:
        return SagaStatus.MANUAL_INTERVENTION
    if draft.direction is _COMPENSATING:
        path = running_member(draft)
        asks = path is not None and draft.members[path].state is MemberState.RESOLVING
        return SagaStatus.WAITING_RESOLUTION if asks else SagaStatus.COMPENSATING
    if not draft.live:
        return _RUNNING
    states = [activation.state for activation in draft.live.values()]
    if ForwardState.RESOLVING in states:
        return SagaStatus.WAITING_RESOLUTION
    if ForwardState.CANCELLING in states or draft.abort is not None:
        return SagaStatus.CANCELLING
    return _RUNNING


def running_member(draft: Draft) -> str | None:
    """Return the member in hand: one under way, else the first that is not compensated."""
    order = draft.plan.members if draft.plan else ()
    under_way = (path for path in order if draft.members[path].state in _RUNNING_UNDO)
    waiting = (path for path in order if draft.members[path].state is MemberState.PENDING)
    return next(under_way, None) or next(waiting, None)


def _go_forward(draft: Draft) -> list[StepNode]:
    """Freeze an abort that waits for nothing, or return the steps whose first EXECUTE is due."""
    if draft.abort is not None:
        if not draft.live:
            freeze(draft)
        return []
    if status_of(draft) is not _RUNNING:
        return []
    starting, finished = ready_steps(draft)
    if starting or finished:
        draft.set_status(_RUNNING)
    if finished:
        draft.set_status(SagaStatus.COMPLETED)
    return starting


def _go_back(draft: Draft) -> None:
    """Begin the next member, or prove that all are done and end."""
    path = running_member(draft)
    if path is not None:
        member = draft.members[path]
        if member.state is MemberState.PENDING:
            draft.change(path, member, state=MemberState.COMPENSATING)
        return
    if not is_proved(draft):
        draft.set_reason(PLAN_KEY, ManualReason.COMPENSATION_PLAN_DRIFT)
        return
    draft.set_status(SagaStatus.COMPENSATING)
    draft.set_status(SagaStatus.COMPENSATED)


def _issue(draft: Draft, starting: list[StepNode]) -> None:
    """Issue the next attempt of whatever has no obligation of its own, then first attempts.

    All payloads are built before the first command: a transaction that ends in MANUAL issues none.
    """
    _turn_executes(draft)
    due: list[tuple[str, Track, Payload | None]] = []
    for path, track in live_tracks(draft):
        if _is_idle(track):
            executing = track.state is _EXECUTING
            due.append((path, track, payload_for(draft, path) if executing else None))
    due += [(node.path, _FRESH, payload_for(draft, node.path)) for node in starting]
    if draft.reasons:
        return
    for path, track, payload in due:
        _issue_one(draft, path, track, payload)


def _is_idle(track: Track) -> bool:
    waits = track.deadline_at_ms is not None or track.retry_at_ms is not None
    return not (waits or track.halted)


def _turn_executes(draft: Draft) -> None:
    """Under an abort no EXECUTE is issued again: CANCEL where possible, else RESOLVE."""
    if draft.abort is None:
        return
    for path, activation in tuple(draft.live.items()):
        if activation.state is not ForwardState.EXECUTING or not _is_idle(activation):
            continue
        if draft.step(path).cancellable:
            enter_cancelling(draft, path, activation, late=False)
        else:
            enter_resolving(draft, path, activation)


def _issue_one(draft: Draft, path: str, track: Track, payload: Payload | None) -> None:
    ask = ask_of(track)
    channel = ask.channel
    attempt = track.attempts.get(channel, 0) + 1
    operation_id = track.recovery_operation_id
    command = command_for(draft, path, channel, attempt, operation_id, payload)
    draft.put(path, asked(track, command, ask.used))
    draft.effects.append(command)
    draft.fact(_COMMAND, path, None, track.state, {**ABOUT[channel], "attempt": attempt})
