"""What handlers return: closed unions of plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from pydantic import BaseModel, TypeAdapter
from pydantic_core import PydanticSerializationError

from sagabus_core.names import MAX_BODY_BYTES, check_reason_code
from sagabus_core.payload import JSON_CONTENT_TYPE, Payload
from sagabus_core.vocabulary import TerminalStatus
from sagabus_messages import MessageError, parse_strict
from sagabus_participant.errors import OutputError
from sagabus_participant.journal import Finding, Found, Reason

__all__ = [
    "AlreadyTerminal",
    "Cancelled",
    "Compensated",
    "Confirmed",
    "Executed",
    "ExecutedLocally",
    "Halted",
    "Output",
    "Pending",
    "Rejected",
    "Resolved",
    "Succeeded",
    "Undone",
    "Unknown",
    "finding_of",
]

Output: TypeAlias = BaseModel | Mapping[str, object] | None
"""A step's output: a JSON object, as a pydantic model or as a mapping."""

MAX_OUTPUT_BYTES: Final = MAX_BODY_BYTES - 8 * 1024
"""Leaves room for the members of the result around the output."""


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The effect is applied, with this output."""

    output: Output = None


@dataclass(frozen=True, slots=True)
class Rejected:
    """A business refusal: nothing was applied.

    From `resolve` of an external step it is a promise: the outside will *never* apply this
    idempotency key, also if the first call is still on its way.
    """

    reason: str
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a reason that is no stable code."""
        check_reason_code(self.reason)


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody knows yet whether the effect was applied."""

    reason: str = "outcome_in_doubt"
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Halted:
    """Only a person can go on: no answer before a recovery operation."""

    reason: str
    detail: str = ""

    def __post_init__(self) -> None:
        """Refuse a reason that is no stable code."""
        check_reason_code(self.reason)


@dataclass(frozen=True, slots=True)
class Confirmed:
    """Cancelled: the outside will never apply this idempotency key."""


@dataclass(frozen=True, slots=True)
class AlreadyTerminal:
    """Too late to cancel: the effect already has this outcome."""

    status: TerminalStatus
    output: Output = None
    reason: str = "already_terminal"


@dataclass(frozen=True, slots=True)
class Pending:
    """Neither cancelled nor terminal: the orchestrator will ask by RESOLVE."""


ExecutedLocally: TypeAlias = Succeeded | Rejected | Halted
Undone: TypeAlias = Succeeded | Halted
Executed: TypeAlias = Succeeded | Rejected | Unknown | Halted
Resolved: TypeAlias = Executed
Compensated: TypeAlias = Succeeded | Unknown | Halted
Cancelled: TypeAlias = Confirmed | AlreadyTerminal | Pending
Outcome: TypeAlias = Executed | Cancelled

_ANY: Final = TypeAdapter(dict[str, object])
_TERMINAL: Final[dict[TerminalStatus, Literal[Found.SUCCEEDED, Found.REJECTED, Found.HALTED]]] = {
    TerminalStatus.SUCCEEDED: Found.SUCCEEDED,
    TerminalStatus.REJECTED: Found.REJECTED,
    TerminalStatus.HALTED: Found.HALTED,
}


def finding_of(outcome: Outcome, output_schema: str) -> Finding:
    """Return what the pure core makes its decision of. Raises `OutputError`."""
    match outcome:
        case Succeeded(output):
            finding = Finding(Found.SUCCEEDED, output=_payload(output, output_schema))
        case Rejected(reason, detail):
            finding = Finding(Found.REJECTED, Reason(reason, detail))
        case Unknown(reason, detail):
            finding = Finding(Found.UNKNOWN, Reason(reason, detail))
        case Halted(reason, detail):
            finding = Finding(Found.HALTED, Reason(reason, detail))
        case Confirmed():
            finding = Finding(Found.CONFIRMED, Reason("cancelled"))
        case Pending():
            finding = Finding(Found.PENDING, Reason("outcome_in_doubt"))
        case AlreadyTerminal(status, output, reason):
            succeeded = status is TerminalStatus.SUCCEEDED
            payload = _payload(output, output_schema) if succeeded else None
            finding = Finding(_TERMINAL[status], None if succeeded else Reason(reason), payload)
        case _:
            assert_never(outcome)
    return finding


def _payload(output: Output, schema: str) -> Payload | None:
    if output is None:
        return None
    text = _text(output)
    if len(text) > MAX_OUTPUT_BYTES:
        raise OutputError(
            "output_too_large", f"the output has {len(text)} of at most {MAX_OUTPUT_BYTES} bytes"
        )
    try:
        parse_strict(text)
    except MessageError as cause:
        raise OutputError("output_invalid", cause.detail) from cause
    return Payload(JSON_CONTENT_TYPE, schema, text)


def _text(output: BaseModel | Mapping[str, object]) -> bytes:
    if isinstance(output, BaseModel):
        return output.model_dump_json().encode()
    try:
        return _ANY.dump_json(dict(output))
    except PydanticSerializationError as cause:
        raise OutputError("output_invalid", f"the output is no JSON object: {cause}") from cause
