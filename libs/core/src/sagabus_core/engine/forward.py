"""What each move does to a forward activation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sagabus_core.definitions.model import StepKind, TimeoutPolicy
from sagabus_core.engine.abort import revoke_abort, set_abort
from sagabus_core.engine.draft import Draft, activation_key
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.mapping import read_variables
from sagabus_core.engine.snapshot import Activation
from sagabus_core.engine.steering import (
    enter_cancelling,
    enter_resolving,
    exhaust_budget,
    halt,
    try_again,
)
from sagabus_core.engine.table import Move, forward_move, profile_of
from sagabus_core.engine.vocabulary import ForwardState, ManualReason
from sagabus_core.errors import InvalidValue
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Direction

__all__ = ["apply_move", "keep_output", "settle", "time_out"]

_SUCCEEDED: Final = ForwardState.SUCCEEDED
_PIVOT: Final = StepKind.PIVOT
_LATE_IS_UNDONE: Final = TimeoutPolicy.COMPENSATE_LATE_SUCCESS

_Handler = Callable[[Draft, str, Activation, Payload | None], None]


def apply_move(
    draft: Draft, path: str, activation: Activation, move: Move, output: Payload | None = None
) -> None:
    """Do what the table says; moves without a handler change nothing (NOTE, AGREE, WAIT)."""
    handler = _HANDLERS.get(move)
    if handler is not None:
        handler(draft, path, activation, output)


def time_out(draft: Draft, path: str, activation: Activation) -> None:
    """Treat the current attempt as timed out."""
    profile = profile_of(draft.step(path))
    apply_move(
        draft, path, activation, forward_move(profile, activation.state, Input.ATTEMPT_TIMEOUT)
    )


def settle(draft: Draft, path: str, activation: Activation, state: ForwardState) -> None:
    """Write a definitive outcome: every deadline, mark and reason of the activation is void."""
    sequence = None
    if state is _SUCCEEDED:
        sequence = draft.next_success
        draft.next_success += 1
        draft.open_way(path)
    draft.replace(path, activation, activation.settled(state, sequence))
    if draft.reasons:
        draft.clear_reason(activation_key(path))


def keep_output(draft: Draft, path: str, output: Payload | None) -> None:
    """Set the variables that an output feeds, or ask for a person if it does not fit."""
    node = draft.definition.nodes[path]
    if not node.output:
        return
    try:
        values = read_variables(node.output, node.step.output, output, draft.definition.variables)
    except InvalidValue:
        draft.set_reason(activation_key(path), ManualReason.OUTPUT_CONTRACT_MISMATCH)
        return
    draft.variables = {**draft.variables, **values}


def _succeeded(draft: Draft, path: str, activation: Activation, output: Payload | None) -> None:
    settle(draft, path, activation, _SUCCEEDED)
    step = draft.step(path)
    if step.kind is _PIVOT and draft.direction is Direction.FORWARD:
        revoke_abort(draft, path)
    elif activation.late and step.timeout_policy is _LATE_IS_UNDONE:
        set_abort(draft, "late_success", path)
    if draft.abort is None:
        keep_output(draft, path, output)


def _rejected(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    settle(draft, path, activation, ForwardState.REJECTED)
    set_abort(draft, "step_rejected", path)


def _cancelled(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    settle(draft, path, activation, ForwardState.CANCELLED)
    set_abort(draft, "step_cancelled", path)


def _cancel(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    enter_cancelling(draft, path, activation, late=True)


def _resolve(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    # From EXECUTING only a timeout leads here; from CANCELLING its cause was noted before.
    late = activation.state is ForwardState.EXECUTING
    enter_resolving(draft, path, activation, late=late)


def _resolve_if_allowed(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    if draft.step(path).unknown_allowed:
        enter_resolving(draft, path, activation)
        return
    draft.change(path, activation, deadline_at_ms=None)
    draft.set_reason(activation_key(path), ManualReason.UNKNOWN_NOT_ALLOWED)


def _reissue(draft: Draft, path: str, activation: Activation, _: Payload | None) -> None:
    draft.change(path, activation, retry_at_ms=None)


_HANDLERS: Final[Mapping[Move, _Handler]] = {
    Move.SETTLE_SUCCEEDED: _succeeded,
    Move.SETTLE_REJECTED: _rejected,
    Move.SETTLE_CANCELLED: _cancelled,
    Move.CANCEL: _cancel,
    Move.RESOLVE: _resolve,
    Move.RESOLVE_IF_ALLOWED: _resolve_if_allowed,
    Move.REISSUE: _reissue,
    Move.TRY_AGAIN: lambda draft, path, track, _: try_again(draft, path, track),
    Move.HALT: lambda draft, path, track, _: halt(draft, path, track),
    Move.BUDGET_EXHAUSTED: lambda draft, path, track, _: exhaust_budget(draft, path, track),
}
