"""What can happen to an activation or a plan member, and which answers mean what."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from sagabus_core.engine.vocabulary import CHANNELS, Channel
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus

__all__ = ["ANSWERS", "MEANINGS", "Input"]


class Input(StrEnum):
    """What can happen to an activation or a plan member."""

    EXECUTE_SUCCEEDED = "EXECUTE: SUCCEEDED"
    EXECUTE_REJECTED = "EXECUTE: REJECTED"
    EXECUTE_UNKNOWN = "EXECUTE: UNKNOWN"
    EXECUTE_HALTED = "EXECUTE: HALTED"
    CANCEL_CONFIRMED = "CANCEL: CONFIRMED"
    CANCEL_PENDING = "CANCEL: RESOLUTION_PENDING"
    FOUND_SUCCEEDED = "CANCEL: ALREADY SUCCEEDED"
    FOUND_REJECTED = "CANCEL: ALREADY REJECTED"
    FOUND_HALTED = "CANCEL: ALREADY HALTED"
    RESOLVED_SUCCEEDED = "RESOLVE: SUCCEEDED"
    RESOLVED_REJECTED = "RESOLVE: REJECTED"
    RESOLVED_UNKNOWN = "RESOLVE: UNKNOWN"
    RESOLVED_HALTED = "RESOLVE: HALTED"
    UNDO_SUCCEEDED = "COMPENSATE: SUCCEEDED"
    UNDO_UNKNOWN = "COMPENSATE: UNKNOWN"
    UNDO_HALTED = "COMPENSATE: HALTED"
    UNDO_FOUND_DONE = "RESOLVE undo: SUCCEEDED"
    UNDO_FOUND_MISSING = "RESOLVE undo: REJECTED"
    UNDO_FOUND_UNKNOWN = "RESOLVE undo: UNKNOWN"
    UNDO_FOUND_HALTED = "RESOLVE undo: HALTED"
    ATTEMPT_TIMEOUT = "attempt timeout"
    RETRY_DUE = "retry due"
    BUDGET_OVER = "budget over"
    ABORT_DECIDED = "abort decided"


_RS, _TS = ResultStatus, TerminalStatus

ANSWERS: Final[Mapping[tuple[Channel, ResultStatus, TerminalStatus | None], tuple[Input, str]]] = {
    (Channel.EXECUTE, _RS.SUCCEEDED, None): (Input.EXECUTE_SUCCEEDED, "S"),
    (Channel.EXECUTE, _RS.REJECTED, None): (Input.EXECUTE_REJECTED, "R"),
    (Channel.EXECUTE, _RS.UNKNOWN, None): (Input.EXECUTE_UNKNOWN, "U"),
    (Channel.EXECUTE, _RS.HALTED, None): (Input.EXECUTE_HALTED, "H"),
    (Channel.CANCEL, _RS.CANCEL_CONFIRMED, None): (Input.CANCEL_CONFIRMED, "C"),
    (Channel.CANCEL, _RS.RESOLUTION_PENDING, None): (Input.CANCEL_PENDING, "P"),
    (Channel.CANCEL, _RS.ALREADY_TERMINAL, _TS.SUCCEEDED): (Input.FOUND_SUCCEEDED, "TS"),
    (Channel.CANCEL, _RS.ALREADY_TERMINAL, _TS.REJECTED): (Input.FOUND_REJECTED, "TR"),
    (Channel.CANCEL, _RS.ALREADY_TERMINAL, _TS.HALTED): (Input.FOUND_HALTED, "TH"),
    (Channel.RESOLVE_EXECUTE, _RS.SUCCEEDED, None): (Input.RESOLVED_SUCCEEDED, "S"),
    (Channel.RESOLVE_EXECUTE, _RS.REJECTED, None): (Input.RESOLVED_REJECTED, "R"),
    (Channel.RESOLVE_EXECUTE, _RS.UNKNOWN, None): (Input.RESOLVED_UNKNOWN, "U"),
    (Channel.RESOLVE_EXECUTE, _RS.HALTED, None): (Input.RESOLVED_HALTED, "H"),
    (Channel.COMPENSATE, _RS.SUCCEEDED, None): (Input.UNDO_SUCCEEDED, "S"),
    (Channel.COMPENSATE, _RS.UNKNOWN, None): (Input.UNDO_UNKNOWN, "U"),
    (Channel.COMPENSATE, _RS.HALTED, None): (Input.UNDO_HALTED, "H"),
    (Channel.RESOLVE_COMPENSATE, _RS.SUCCEEDED, None): (Input.UNDO_FOUND_DONE, "S"),
    (Channel.RESOLVE_COMPENSATE, _RS.REJECTED, None): (Input.UNDO_FOUND_MISSING, "R"),
    (Channel.RESOLVE_COMPENSATE, _RS.UNKNOWN, None): (Input.UNDO_FOUND_UNKNOWN, "U"),
    (Channel.RESOLVE_COMPENSATE, _RS.HALTED, None): (Input.UNDO_FOUND_HALTED, "H"),
}
"""What an answer means, and its letter in the snapshot."""

_Answer = tuple[Phase, Phase | None, ResultStatus, TerminalStatus | None]

MEANINGS: Final[Mapping[_Answer, tuple[Channel, Input, str]]] = {
    (*pair, status, terminal): (channel, *meaning)
    for pair, channel in CHANNELS.items()
    for (asked, status, terminal), meaning in ANSWERS.items()
    if asked is channel
}
"""The same by phase, target, status and terminal status, as they stand on the wire."""
