"""What an operator attests over HTTP, as the engine takes it."""

from __future__ import annotations

from typing import Any, assert_never

from sagabus_core.engine import (
    Attestation,
    AttestedBranch,
    AttestedOutcome,
    AttestedOutput,
    AttestedPayload,
    AttestedUndo,
)
from sagabus_core.payload import Payload
from sagabus_messages.payloads import read_payload, write_payload
from sagabus_messages.strict_json import dump, load
from sagabus_orchestrator.api.models.operations import (
    AttestationQuestion,
    AttestedBranchQuestion,
    AttestedOutcomeQuestion,
    AttestedOutputQuestion,
    AttestedPayloadQuestion,
    AttestedUndoQuestion,
)

__all__ = ["attested", "question_of"]


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


def question_of(attestation: Attestation) -> dict[str, Any]:
    """Return the attestation as a caller asks for it: `attested` takes it back."""
    match attestation:
        case AttestedOutcome(activation, outcome, output):
            said = {"kind": "outcome", "activation": activation, "outcome": outcome.value}
            return said if output is None else {**said, "output": _written(output)}
        case AttestedUndo(activation, happened):
            return {"kind": "undo", "activation": activation, "happened": happened}
        case AttestedBranch(choice, branch):
            return {"kind": "branch", "choice": choice, "branch": branch}
        case AttestedPayload(activation, payload):
            return {"kind": "payload", "activation": activation, "payload": _written(payload)}
        case AttestedOutput(activation, output):
            return {"kind": "output", "activation": activation, "output": _written(output)}
        case _:
            assert_never(attestation)


def _written(payload: Payload) -> Any:  # noqa: ANN401  # JSON
    return load(dump(write_payload(payload)))
