"""Every reason for MANUAL and its exits, as a table; only a listed exit clears a reason."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sagabus_core.engine.vocabulary import ManualReason

__all__ = ["CONFLICTS", "EXITS", "FORWARD_ONLY", "Exit", "clears"]


class Exit(StrEnum):
    """A way out of MANUAL, beside manual_close."""

    RETRY = "retry"
    RECORD_OUTCOME = "record_outcome"
    LATE_FACT = "late_fact"
    CANCEL = "cancel"


_AGAIN: Final = frozenset({Exit.RETRY, Exit.RECORD_OUTCOME, Exit.LATE_FACT})
_FORWARD: Final = frozenset({Exit.RECORD_OUTCOME, Exit.CANCEL})
_ATTEST: Final = frozenset({Exit.RECORD_OUTCOME})

EXITS: Final[Mapping[ManualReason, frozenset[Exit]]] = {
    ManualReason.STEP_HALTED: _AGAIN,
    ManualReason.CANCEL_ATTEMPTS_EXHAUSTED: _AGAIN,
    ManualReason.RETRIABLE_ATTEMPTS_EXHAUSTED: _AGAIN,
    ManualReason.RESOLVE_ATTEMPTS_EXHAUSTED: _AGAIN,
    ManualReason.RESOLUTION_BUDGET_EXHAUSTED: _AGAIN,
    ManualReason.RESOLUTION_HALTED: _AGAIN,
    ManualReason.COMPENSATION_HALTED: _AGAIN,
    ManualReason.COMPENSATION_ATTEMPTS_EXHAUSTED: _AGAIN,
    ManualReason.UNKNOWN_NOT_ALLOWED: frozenset({Exit.RECORD_OUTCOME, Exit.LATE_FACT}),
    ManualReason.CONDITION_ERROR: _FORWARD,
    ManualReason.COMMAND_PAYLOAD_INVALID: _FORWARD,
    ManualReason.OUTPUT_CONTRACT_MISMATCH: _FORWARD,
    ManualReason.ATTEMPT_OUTCOME_CONFLICT: _ATTEST,
    ManualReason.CROSS_PHASE_FACT_CONFLICT: _ATTEST,
    ManualReason.COMPENSATION_PLAN_DRIFT: _ATTEST,
}
"""How each reason ends. `cancel` counts only before a pivot has succeeded."""

FORWARD_ONLY: Final = frozenset(reason for reason, exits in EXITS.items() if Exit.CANCEL in exits)
"""Reasons that concern nothing but the way forward: an operator's cancel makes them void."""

CONFLICTS: Final = frozenset(reason for reason, exits in EXITS.items() if exits == _ATTEST)
"""Reasons that only an attestation clears: they override any other reason of their subject."""


def clears(way: Exit, reason: ManualReason) -> bool:
    """Whether `way` is a listed exit of `reason`."""
    return way in EXITS[reason]
