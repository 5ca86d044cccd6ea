"""What an operator writes behind `--attest`, as the engine takes it."""

from __future__ import annotations

from pathlib import Path

from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    Attestation,
    AttestedBranch,
    AttestedOutcome,
    AttestedOutput,
    AttestedPayload,
    AttestedUndo,
    ForwardState,
)
from sagabus_core.errors import InvalidValue
from sagabus_core.payload import Payload, PayloadContract

__all__ = ["read_attestation"]

_HAPPENED = {"HAPPENED": True, "NOT_HAPPENED": False}


def read_attestation(text: str, definition: Definition) -> Attestation:
    """Return the attestation. Raises `InvalidValue` (`invalid_attestation`, `unreadable_file`)."""
    subject, separator, value = text.partition("=")
    kind, colon, place = subject.rpartition(":")
    if not (separator and place and value):
        raise InvalidValue("invalid_attestation", f"{text!r} is not SUBJECT=VALUE")
    match kind if colon else "outcome":
        case "outcome":
            return AttestedOutcome(place, _state(value))
        case "undo" if value in _HAPPENED:
            return AttestedUndo(place, _HAPPENED[value])
        case "branch":
            return AttestedBranch(place, value)
        case "payload":
            node = definition.nodes.get(place)
            return AttestedPayload(place, _payload(value, node.step.payload if node else None))
        case "output":
            node = definition.nodes.get(place)
            return AttestedOutput(place, _payload(value, node.step.output if node else None))
        case _:
            raise InvalidValue("invalid_attestation", f"{text!r} attests nothing that is known")


def _state(value: str) -> ForwardState:
    try:
        return ForwardState(value)
    except ValueError as cause:
        raise InvalidValue(
            "invalid_attestation", f"{value} is none of SUCCEEDED, REJECTED, CANCELLED"
        ) from cause


def _payload(value: str, contract: PayloadContract | None) -> Payload:
    if contract is None:
        raise InvalidValue("invalid_attestation", "that step declares no such contract")
    if not value.startswith("@"):
        raise InvalidValue("invalid_attestation", "name a file: payload:STEP=@file.json")
    path = Path(value[1:])
    try:
        body = path.read_bytes()
    except OSError as cause:
        raise InvalidValue("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
    return Payload(contract.content_type, contract.schema_id, body)
