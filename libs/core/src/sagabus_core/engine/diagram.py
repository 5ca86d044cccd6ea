"""State diagrams in Mermaid, made from the table of legal moves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sagabus_core.engine.inputs import Input
from sagabus_core.engine.table import FORWARD, MEMBER, STATUS, Move, Profile

__all__ = ["mermaid_forward", "mermaid_member", "mermaid_status"]

_LEADS_TO: Mapping[Move, str] = {
    Move.SETTLE_SUCCEEDED: "SUCCEEDED",
    Move.SETTLE_REJECTED: "REJECTED",
    Move.SETTLE_CANCELLED: "CANCELLED",
    Move.SETTLE_COMPENSATED: "COMPENSATED",
    Move.CANCEL: "CANCELLING",
    Move.RESOLVE: "RESOLVING",
    Move.RESOLVE_IF_ALLOWED: "RESOLVING",
    Move.UNDO_AGAIN: "COMPENSATING",
    Move.HALT: "MANUAL",
    Move.CONFLICT: "MANUAL",
    Move.BUDGET_EXHAUSTED: "MANUAL",
}


def mermaid_forward(profile: Profile) -> str:
    """Return the forward life of a step of this profile."""
    moves = ((state.value, given, move) for (state, given), move in FORWARD[profile].items())
    return _draw("EXECUTING", moves)


def mermaid_member() -> str:
    """Return the life of a plan member."""
    moves = ((state.value, given, move) for (state, given), move in MEMBER.items())
    return _draw("COMPENSATING", moves)


def mermaid_status() -> str:
    """Return which status of a saga may follow which."""
    edges = [
        f"    {status} --> {after}"
        for status, following in STATUS.items()
        for after in sorted(following)
    ]
    ends = [f"    {status} --> [*]" for status, following in STATUS.items() if not following]
    return "\n".join(["stateDiagram-v2", "    [*] --> RUNNING", *edges, *ends, ""])


def _draw(first: str, moves: Iterable[tuple[str, Input, Move]]) -> str:
    """Draw every move that leads somewhere; what is only journalled would hide the rest."""
    labels: dict[tuple[str, str], list[str]] = {}
    for state, given, move in moves:
        after = state if move in {Move.TRY_AGAIN, Move.REISSUE} else _LEADS_TO.get(move)
        if after is not None:
            labels.setdefault((state, after), []).append(given.replace(":", ""))
    edges = [
        f"    {state} --> {after}: {', '.join(given)}" for (state, after), given in labels.items()
    ]
    return "\n".join(["stateDiagram-v2", f"    [*] --> {first}", *edges, ""])
