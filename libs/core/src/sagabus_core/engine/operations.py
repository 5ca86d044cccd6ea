"""Management operations: their preconditions, and what they change before the engine goes on."""

from __future__ import annotations

from sagabus_core.engine.abort import set_abort
from sagabus_core.engine.attest import record_outcome
from sagabus_core.engine.converge import running_member
from sagabus_core.engine.draft import Draft
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.events import (
    Cancel,
    ManagementEvent,
    ManualClose,
    Pause,
    RecordOutcome,
    Resume,
    Retry,
)
from sagabus_core.engine.reasons import FORWARD_ONLY, Exit, clears
from sagabus_core.engine.snapshot import Track, evolve
from sagabus_core.engine.steering import timing_of
from sagabus_core.engine.table import OPERATIONS
from sagabus_core.engine.vocabulary import Channel, ForwardState, MemberState, OperationKind
from sagabus_core.errors import OperationRefused, StaleSnapshot
from sagabus_core.vocabulary import Control, Direction, SagaStatus

__all__ = ["apply_operation"]

_RESOLVING = (ForwardState.RESOLVING, MemberState.RESOLVING)
_ISSUING = frozenset({OperationKind.CANCEL, OperationKind.RETRY, OperationKind.RECORD_OUTCOME})


def apply_operation(draft: Draft, event: ManagementEvent) -> None:
    """Do an operation, or raise `StaleSnapshot` or `OperationRefused` and leave no trace."""
    _check(draft, event)
    match event:
        case Pause():
            _set_control(draft, Control.PAUSED)
        case Resume():
            _set_control(draft, Control.ACTIVE)
        case Cancel():
            _cancel(draft, event.operation.operation_id)
        case Retry():
            _retry(draft, event.operation.operation_id)
        case RecordOutcome():
            record_outcome(draft, event)
        case ManualClose():
            draft.set_status(SagaStatus.MANUALLY_CLOSED)


def _refuse(detail: str) -> OperationRefused:
    return OperationRefused("precondition_failed", detail)


def _check(draft: Draft, event: ManagementEvent) -> None:
    expected = event.operation.expected_revision
    if expected is not None and expected != draft.base.revision:
        raise StaleSnapshot(
            "stale_snapshot", f"revision {expected} was expected, {draft.base.revision} is present"
        )
    if draft.status not in OPERATIONS[event.kind]:
        raise _refuse(f"{event.kind} is not possible in {draft.status}")
    if draft.control is Control.PAUSED and event.kind in _ISSUING:
        raise _refuse(f"{event.kind} may issue commands: resume first")


def _set_control(draft: Draft, control: Control) -> None:
    if draft.control is control:
        raise _refuse(f"the saga is {control} already")
    draft.fact(FactKind.CONTROL, None, draft.control, control)
    draft.control = control


def _cancel(draft: Draft, operation_id: str) -> None:
    void = [key for key, reason in draft.reasons.items() if reason in FORWARD_ONLY]
    if draft.direction is Direction.COMPENSATING or draft.pivot_succeeded:
        raise _refuse("cancel is possible before a pivot has succeeded and before compensation")
    if draft.abort is not None and not void:
        raise _refuse(f"an abort is under way already ({draft.abort.reason})")
    for key in void:
        draft.clear_reason(key)
    set_abort(draft, "operator_cancel", operation_id)


def _retry(draft: Draft, operation_id: str) -> None:
    """Clear marks, budgets and deadlines of whatever is open; the engine then issues it again."""
    stuck = [r for r in draft.reasons.values() if not clears(Exit.RETRY, r)]
    if stuck:
        raise _refuse(f"retry does not end {', '.join(sorted(set(stuck)))}")
    for key in tuple(draft.reasons):
        draft.clear_reason(key)
    for path, activation in tuple(draft.live.items()):
        _refresh(draft, path, activation, operation_id)
    member = running_member(draft)
    if member is not None:
        _refresh(draft, member, draft.members[member], operation_id)


def _refresh(draft: Draft, path: str, track: Track, operation_id: str) -> None:
    changes: dict[str, object] = {
        "halted": False,
        "used": 0,
        "resolve_used": 0,
        "deadline_at_ms": None,
        "retry_at_ms": None,
        "recovery_operation_id": operation_id,
    }
    if track.state in _RESOLVING:  # a fresh stay
        budget_ms = timing_of(draft.step(path), Channel.RESOLVE_EXECUTE).budget_ms or 0
        changes["budget_at_ms"] = draft.now_at_ms + budget_ms
    draft.put(path, evolve(track, **changes))
