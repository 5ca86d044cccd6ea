"""The table of legal moves, as data: state and input in, move out; an unlisted pair is an error.

One table per profile of a step (cancellable, resolve-only, retriable), one for the members of the
compensation plan, one for the status of the saga, one for the management operations. What a move
does is in `forward.py` and `undo.py`; whether an answer reaches the table at all (facts from any
attempt, hints from the current one) is in `answers.py`. `diagram.py` draws these tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sagabus_core.definitions.model import StepDefinition, StepKind
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.vocabulary import ForwardState, MemberState, OperationKind
from sagabus_core.errors import IllegalTransition
from sagabus_core.vocabulary import SagaStatus

__all__ = [
    "FACTS",
    "FORWARD",
    "MEMBER",
    "OPERATIONS",
    "STATUS",
    "Move",
    "Profile",
    "forward_move",
    "is_fact",
    "member_move",
    "profile_of",
]


class Profile(StrEnum):
    """What kind of forward life a step has."""

    CANCELLABLE = "cancellable"
    RESOLVE_ONLY = "resolve-only"
    RETRIABLE = "retriable"


class Move(StrEnum):
    """What the engine does about it."""

    SETTLE_SUCCEEDED = "settle SUCCEEDED"
    SETTLE_REJECTED = "settle REJECTED"
    SETTLE_CANCELLED = "settle CANCELLED"
    SETTLE_COMPENSATED = "settle COMPENSATED"
    CANCEL = "issue CANCEL"
    RESOLVE = "issue RESOLVE"
    RESOLVE_IF_ALLOWED = "issue RESOLVE, or MANUAL unknown_not_allowed"
    TRY_AGAIN = "next attempt after backoff, or MANUAL exhausted"
    UNDO_AGAIN = "next COMPENSATE attempt, or MANUAL exhausted"
    REISSUE = "issue the next attempt"
    HALT = "mark HALTED, MANUAL"
    BUDGET_EXHAUSTED = "MANUAL resolution_budget_exhausted"
    WAIT = "wait for its own answer"
    AGREE = "agrees with the fact"
    CONFLICT = "keep both facts, MANUAL conflict"
    NOTE = "journal only"


_Forward = Mapping[tuple[ForwardState, Input], Move]
_E, _C, _R = ForwardState.EXECUTING, ForwardState.CANCELLING, ForwardState.RESOLVING
_DONE, _NO, _OFF = ForwardState.SUCCEEDED, ForwardState.REJECTED, ForwardState.CANCELLED
_HINTS: Final = (
    Input.EXECUTE_UNKNOWN,
    Input.EXECUTE_HALTED,
    Input.CANCEL_PENDING,
    Input.FOUND_HALTED,
    Input.RESOLVED_UNKNOWN,
    Input.RESOLVED_HALTED,
)
_YES_FACTS: Final = (Input.EXECUTE_SUCCEEDED, Input.FOUND_SUCCEEDED, Input.RESOLVED_SUCCEEDED)
_NO_FACTS: Final = (
    Input.EXECUTE_REJECTED,
    Input.FOUND_REJECTED,
    Input.RESOLVED_REJECTED,
    Input.CANCEL_CONFIRMED,
)

_SETTLED: _Forward = {
    **{(state, hint): Move.NOTE for state in (_DONE, _NO, _OFF) for hint in _HINTS},
    **{(_DONE, fact): Move.AGREE for fact in _YES_FACTS},
    **{(_DONE, fact): Move.CONFLICT for fact in _NO_FACTS},
    **{(state, fact): Move.CONFLICT for state in (_NO, _OFF) for fact in _YES_FACTS},
    # A fenced EXECUTE answers REJECTED: that agrees with CANCELLED, the first stays.
    **{(state, fact): Move.AGREE for state in (_NO, _OFF) for fact in _NO_FACTS},
}

_EXECUTING: _Forward = {
    (_E, Input.EXECUTE_SUCCEEDED): Move.SETTLE_SUCCEEDED,
    (_E, Input.EXECUTE_REJECTED): Move.SETTLE_REJECTED,
    (_E, Input.EXECUTE_UNKNOWN): Move.RESOLVE_IF_ALLOWED,
    (_E, Input.EXECUTE_HALTED): Move.HALT,
    (_E, Input.RETRY_DUE): Move.REISSUE,
}

_RESOLVING: _Forward = {
    (_R, Input.EXECUTE_SUCCEEDED): Move.SETTLE_SUCCEEDED,
    (_R, Input.EXECUTE_REJECTED): Move.SETTLE_REJECTED,
    (_R, Input.EXECUTE_UNKNOWN): Move.NOTE,
    (_R, Input.EXECUTE_HALTED): Move.NOTE,
    (_R, Input.RESOLVED_SUCCEEDED): Move.SETTLE_SUCCEEDED,
    (_R, Input.RESOLVED_REJECTED): Move.SETTLE_REJECTED,
    (_R, Input.RESOLVED_UNKNOWN): Move.TRY_AGAIN,
    (_R, Input.RESOLVED_HALTED): Move.HALT,
    (_R, Input.ATTEMPT_TIMEOUT): Move.TRY_AGAIN,
    (_R, Input.RETRY_DUE): Move.REISSUE,
    (_R, Input.BUDGET_OVER): Move.BUDGET_EXHAUSTED,
}

FORWARD: Final[Mapping[Profile, _Forward]] = {
    Profile.CANCELLABLE: {
        **_EXECUTING,
        (_E, Input.ATTEMPT_TIMEOUT): Move.CANCEL,
        (_E, Input.ABORT_DECIDED): Move.CANCEL,
        (_C, Input.CANCEL_CONFIRMED): Move.SETTLE_CANCELLED,
        (_C, Input.FOUND_SUCCEEDED): Move.SETTLE_SUCCEEDED,
        (_C, Input.FOUND_REJECTED): Move.SETTLE_REJECTED,
        (_C, Input.FOUND_HALTED): Move.HALT,
        (_C, Input.CANCEL_PENDING): Move.RESOLVE,
        (_C, Input.EXECUTE_SUCCEEDED): Move.SETTLE_SUCCEEDED,
        (_C, Input.EXECUTE_REJECTED): Move.SETTLE_REJECTED,
        (_C, Input.EXECUTE_UNKNOWN): Move.NOTE,
        (_C, Input.EXECUTE_HALTED): Move.NOTE,
        (_C, Input.ATTEMPT_TIMEOUT): Move.TRY_AGAIN,
        (_C, Input.RETRY_DUE): Move.REISSUE,
        **_RESOLVING,
        (_R, Input.CANCEL_CONFIRMED): Move.SETTLE_CANCELLED,
        (_R, Input.FOUND_SUCCEEDED): Move.SETTLE_SUCCEEDED,
        (_R, Input.FOUND_REJECTED): Move.SETTLE_REJECTED,
        (_R, Input.FOUND_HALTED): Move.NOTE,
        (_R, Input.CANCEL_PENDING): Move.NOTE,
        **_SETTLED,
    },
    Profile.RESOLVE_ONLY: {
        **_EXECUTING,
        (_E, Input.ATTEMPT_TIMEOUT): Move.RESOLVE,
        (_E, Input.ABORT_DECIDED): Move.WAIT,
        **_RESOLVING,
        **_SETTLED,
    },
    Profile.RETRIABLE: {
        **_EXECUTING,
        (_E, Input.EXECUTE_REJECTED): Move.TRY_AGAIN,
        (_E, Input.EXECUTE_UNKNOWN): Move.TRY_AGAIN,
        (_E, Input.ATTEMPT_TIMEOUT): Move.TRY_AGAIN,
        (_DONE, Input.EXECUTE_SUCCEEDED): Move.AGREE,
        (_DONE, Input.EXECUTE_REJECTED): Move.NOTE,
        (_DONE, Input.EXECUTE_UNKNOWN): Move.NOTE,
        (_DONE, Input.EXECUTE_HALTED): Move.NOTE,
    },
}
"""Forward life of an activation, by profile, state and input."""

_K, _Q, _OK = MemberState.COMPENSATING, MemberState.RESOLVING, MemberState.COMPENSATED

MEMBER: Final[Mapping[tuple[MemberState, Input], Move]] = {
    (_K, Input.UNDO_SUCCEEDED): Move.SETTLE_COMPENSATED,
    (_K, Input.UNDO_UNKNOWN): Move.RESOLVE,
    (_K, Input.UNDO_HALTED): Move.HALT,
    (_K, Input.UNDO_FOUND_DONE): Move.SETTLE_COMPENSATED,
    (_K, Input.UNDO_FOUND_MISSING): Move.NOTE,
    (_K, Input.UNDO_FOUND_UNKNOWN): Move.NOTE,
    (_K, Input.UNDO_FOUND_HALTED): Move.NOTE,
    (_K, Input.ATTEMPT_TIMEOUT): Move.TRY_AGAIN,
    (_K, Input.RETRY_DUE): Move.REISSUE,
    (_Q, Input.UNDO_SUCCEEDED): Move.SETTLE_COMPENSATED,
    (_Q, Input.UNDO_UNKNOWN): Move.NOTE,
    (_Q, Input.UNDO_HALTED): Move.NOTE,
    (_Q, Input.UNDO_FOUND_DONE): Move.SETTLE_COMPENSATED,
    (_Q, Input.UNDO_FOUND_MISSING): Move.UNDO_AGAIN,
    (_Q, Input.UNDO_FOUND_UNKNOWN): Move.TRY_AGAIN,
    (_Q, Input.UNDO_FOUND_HALTED): Move.HALT,
    (_Q, Input.ATTEMPT_TIMEOUT): Move.TRY_AGAIN,
    (_Q, Input.RETRY_DUE): Move.REISSUE,
    (_Q, Input.BUDGET_OVER): Move.BUDGET_EXHAUSTED,
    (_OK, Input.UNDO_SUCCEEDED): Move.AGREE,
    (_OK, Input.UNDO_FOUND_DONE): Move.AGREE,
    (_OK, Input.UNDO_UNKNOWN): Move.NOTE,
    (_OK, Input.UNDO_HALTED): Move.NOTE,
    (_OK, Input.UNDO_FOUND_MISSING): Move.NOTE,
    (_OK, Input.UNDO_FOUND_UNKNOWN): Move.NOTE,
    (_OK, Input.UNDO_FOUND_HALTED): Move.NOTE,
}
"""Life of a plan member, by state and input."""

_S = SagaStatus
_GOING: Final = frozenset({_S.RUNNING, _S.CANCELLING, _S.WAITING_RESOLUTION, _S.COMPENSATING})

STATUS: Final[Mapping[SagaStatus, frozenset[SagaStatus]]] = {
    _S.RUNNING: (_GOING - {_S.RUNNING}) | {_S.MANUAL_INTERVENTION, _S.COMPLETED},
    _S.CANCELLING: (_GOING - {_S.CANCELLING}) | {_S.MANUAL_INTERVENTION},
    _S.WAITING_RESOLUTION: (_GOING - {_S.WAITING_RESOLUTION}) | {_S.MANUAL_INTERVENTION},
    _S.COMPENSATING: frozenset({_S.WAITING_RESOLUTION, _S.MANUAL_INTERVENTION, _S.COMPENSATED}),
    _S.MANUAL_INTERVENTION: _GOING | {_S.MANUALLY_CLOSED},
    _S.COMPLETED: frozenset(),
    _S.COMPENSATED: frozenset(),
    _S.MANUALLY_CLOSED: frozenset(),
}
"""Which status may follow which. COMPLETED is reached from RUNNING, COMPENSATED from COMPENSATING;
a transaction that goes further passes through them."""

_LIVE: Final = _GOING | {_S.MANUAL_INTERVENTION}

OPERATIONS: Final[Mapping[OperationKind, frozenset[SagaStatus]]] = {
    OperationKind.PAUSE: _LIVE,
    OperationKind.RESUME: _LIVE,
    OperationKind.CANCEL: frozenset({_S.RUNNING, _S.WAITING_RESOLUTION, _S.MANUAL_INTERVENTION}),
    OperationKind.RETRY: frozenset({_S.MANUAL_INTERVENTION}),
    OperationKind.RECORD_OUTCOME: frozenset({_S.MANUAL_INTERVENTION}),
    OperationKind.MANUAL_CLOSE: frozenset({_S.MANUAL_INTERVENTION}),
}
"""In which status an operation is taken; further conditions are in `operations.py`."""

FACTS: Final = frozenset({*_YES_FACTS, *_NO_FACTS, Input.UNDO_SUCCEEDED, Input.UNDO_FOUND_DONE})
"""Answers that count whatever attempt they answer. All others are hints."""

_RETRIABLE_STEP: Final = StepKind.RETRIABLE
_RETRIABLE: Final = Profile.RETRIABLE
_CANCELLABLE: Final = Profile.CANCELLABLE
_RESOLVE_ONLY: Final = Profile.RESOLVE_ONLY


def profile_of(step: StepDefinition) -> Profile:
    """Return which forward table applies to the activations of a step."""
    if step.kind is _RETRIABLE_STEP:
        return _RETRIABLE
    return _CANCELLABLE if step.cancellable else _RESOLVE_ONLY


def is_fact(profile: Profile, given: Input) -> bool:
    """Whether the answer is definitive; a retriable's REJECTED is an attempt outcome, no fact."""
    retry = profile is _RETRIABLE and given is Input.EXECUTE_REJECTED
    return given in FACTS and not retry


def forward_move(profile: Profile, state: ForwardState, given: Input) -> Move:
    """Return the listed move of an activation, or raise `IllegalTransition`."""
    move = FORWARD[profile].get((state, given))
    if move is None:
        raise IllegalTransition("illegal_transition", f"{profile} {state} has no move for {given}")
    return move


def member_move(state: MemberState, given: Input) -> Move:
    """Return the listed move of a plan member, or raise `IllegalTransition`."""
    move = MEMBER.get((state, given))
    if move is None:
        raise IllegalTransition("illegal_transition", f"member {state} has no move for {given}")
    return move
