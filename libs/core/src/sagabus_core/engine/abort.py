"""Turning back, and the one thing that revokes it: the success of a pivot."""

from __future__ import annotations

from sagabus_core.engine.draft import Draft, activation_key
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.snapshot import Abort
from sagabus_core.engine.steering import enter_cancelling
from sagabus_core.engine.table import Move, forward_move, profile_of
from sagabus_core.engine.vocabulary import ForwardState

__all__ = ["revoke_abort", "set_abort"]


def set_abort(draft: Draft, reason: str, cause: str) -> None:
    """Decide to turn back, unless that is decided already: the first cause stays.

    What is EXECUTING and cancellable gets its CANCEL; what waits for a person (HALTED, or an
    UNKNOWN that is not allowed) is left to that person.
    """
    if draft.abort is not None:
        return
    draft.abort = Abort(reason, cause)
    draft.fact(FactKind.ABORT, cause, None, reason)
    for path, activation in tuple(draft.live.items()):
        waits = activation.halted or activation_key(path) in draft.reasons
        if activation.state is not ForwardState.EXECUTING or waits:
            continue
        move = forward_move(profile_of(draft.step(path)), activation.state, Input.ABORT_DECIDED)
        if move is Move.CANCEL:
            enter_cancelling(draft, path, activation, late=False)


def revoke_abort(draft: Draft, path: str) -> None:
    """Go forward again: the pivot at `path` has succeeded after all."""
    if draft.abort is not None:
        draft.fact(FactKind.ABORT, path, draft.abort.reason, None)
        draft.abort = None
