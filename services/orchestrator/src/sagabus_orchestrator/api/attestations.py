"""What an operator attests over HTTP, as the engine takes it."""

from __future__ import annotations

from typing import assert_never

from sagabus_core.engine import (
    Attestation,
    AttestedBranch,
    AttestedOutcome,
    AttestedOutput,
    AttestedPayload,
    AttestedUndo,
)
from sagabus_messages.payloads import read_payload
from sagabus_orchestrator.api.models.operations import (
    AttestationQuestion,
    AttestedBranchQuestion,
    AttestedOutcomeQuestion,
    AttestedOutputQuestion,
    AttestedPayloadQuestion,
    AttestedUndoQuestion,
)

__all__ = ["attested"]


def attested(question: AttestationQuestion) -> Attestation:
    """Return the attestation. Raises `MessageError` for a malformed payload."""
    match question:
        case AttestedOutcomeQuestion():
            output = read_payload(question.output, None) if question.output is not None else None
            return AttestedOutcome(question.activation, question.outcome, output)
        case AttestedUndoQuestion():
            return AttestedUndo(question.activation, question.happened)
        case AttestedBranchQuestion():
            return AttestedBranch(question.choice, question.branch)
        case AttestedPayloadQuestion():
            return AttestedPayload(question.activation, read_payload(question.payload, None))
        case AttestedOutputQuestion():
            return AttestedOutput(question.activation, read_payload(question.output, None))
        case _:
            assert_never(question)
