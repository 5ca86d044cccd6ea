"""What each move does to a member of the compensation plan."""

from __future__ import annotations

from sagabus_core.engine.draft import Draft, member_key
from sagabus_core.engine.snapshot import Member
from sagabus_core.engine.steering import enter_resolving, exhaust_budget, halt, try_again
from sagabus_core.engine.table import Move
from sagabus_core.engine.vocabulary import MemberState
from sagabus_core.errors import IllegalTransition

__all__ = ["apply_undo_move", "settle_undo", "undo_again"]


def apply_undo_move(draft: Draft, path: str, member: Member, move: Move) -> None:
    """Do what the table says to a plan member."""
    match move:
        case Move.NOTE | Move.AGREE:
            return
        case Move.SETTLE_COMPENSATED:
            settle_undo(draft, path, member)
        case Move.RESOLVE:
            enter_resolving(draft, path, member)
        case Move.UNDO_AGAIN:
            undo_again(draft, path, member)
        case Move.TRY_AGAIN:
            try_again(draft, path, member)
        case Move.REISSUE:
            draft.change(path, member, retry_at_ms=None)
        case Move.HALT:
            halt(draft, path, member)
        case Move.BUDGET_EXHAUSTED:
            exhaust_budget(draft, path, member)
        case _:
            raise IllegalTransition("illegal_transition", f"a plan member never does {move}")


def settle_undo(draft: Draft, path: str, member: Member) -> None:
    """End a member: its undo has happened."""
    draft.change(
        path,
        member,
        state=MemberState.COMPENSATED,
        halted=False,
        deadline_at_ms=None,
        retry_at_ms=None,
        budget_at_ms=None,
        recovery_operation_id=None,
    )
    draft.clear_reason(member_key(path))


def undo_again(draft: Draft, path: str, member: Member) -> None:
    """Go on with the next COMPENSATE attempt, counted over all stays: the undo did not happen.

    This is a hint, so it takes back no manual reason.
    """
    draft.change(
        path,
        member,
        state=MemberState.COMPENSATING,
        halted=False,
        deadline_at_ms=None,
        retry_at_ms=None,
        budget_at_ms=None,
    )
    try_again(draft, path, draft.members[path])
