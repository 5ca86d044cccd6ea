"""Management operations as callers ask for them."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from sagabus_core.engine import ForwardState, IssueCommand, ManagementEvent, Preview
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.api.models.fields import Answer, Key, Name, PayloadIn, Question, Text
from sagabus_orchestrator.operations import OperationOutcome

__all__ = [
    "AttestationQuestion",
    "AttestedBranchQuestion",
    "AttestedOutcomeQuestion",
    "AttestedOutputQuestion",
    "AttestedPayloadQuestion",
    "AttestedUndoQuestion",
    "OperationAnswer",
    "OperationQuestion",
    "RecordOutcomeQuestion",
]

ActivationPath: TypeAlias = Annotated[str, Field(min_length=1, max_length=1_000)]


class OperationQuestion(Question):
    """Why, under which id, and what was seen."""

    reason: Text
    """Kept in the journal and the audit."""
    operation_id: Key | None = None
    """Your id: the same one again does nothing more and answers the first outcome."""
    expected_revision: int | None = Field(default=None, ge=1, le=2**53 - 1)
    """Refuse (`stale_snapshot`) if the saga has another revision by now."""
    dry_run: bool = False
    """Only say what would happen; writes nothing."""


class AttestedOutcomeQuestion(Question):
    """The forward effect of a step stands like this."""

    kind: Literal["outcome"]
    activation: ActivationPath
    outcome: Literal[ForwardState.SUCCEEDED, ForwardState.REJECTED, ForwardState.CANCELLED]
    output: PayloadIn | None = None


class AttestedUndoQuestion(Question):
    """The undo of a plan member has happened, or has not (it is issued again)."""

    kind: Literal["undo"]
    activation: ActivationPath
    happened: bool


class AttestedBranchQuestion(Question):
    """A choice takes this branch."""

    kind: Literal["branch"]
    choice: ActivationPath
    branch: Name


class AttestedPayloadQuestion(Question):
    """The command of a step carries this payload."""

    kind: Literal["payload"]
    activation: ActivationPath
    payload: PayloadIn


class AttestedOutputQuestion(Question):
    """A step has given this output."""

    kind: Literal["output"]
    activation: ActivationPath
    output: PayloadIn


AttestationQuestion: TypeAlias = Annotated[
    AttestedOutcomeQuestion
    | AttestedUndoQuestion
    | AttestedBranchQuestion
    | AttestedPayloadQuestion
    | AttestedOutputQuestion,
    Field(discriminator="kind"),
]
"""What is true."""


class RecordOutcomeQuestion(OperationQuestion):
    """Attest an outcome in a saga that needs a person."""

    attestation: AttestationQuestion
    evidence: Text
    """What that rests on."""


class OperationAnswer(Answer):
    """What an operation did, or (`dry_run`) would do."""

    saga_id: str
    kind: str
    operation_id: str
    dry_run: bool
    repeated: bool
    """It had been done before under the same id; this is the first outcome."""
    before: SagaStatus | None
    """Of a dry run: where the saga stands."""
    status: SagaStatus
    """Where it stands afterwards."""
    revision: int | None
    """None for a dry run."""
    commands: list[str]
    """Commands issued, for people."""
    reasons: list[str]
    """Of a dry run: why a person would be needed."""
    undo: list[str]
    """Of a dry run: the plan that would be frozen, in order."""

    @classmethod
    def done(cls, event: ManagementEvent, outcome: OperationOutcome) -> OperationAnswer:
        """Return what an operation did."""
        return cls(
            saga_id=outcome.saga_id,
            kind=outcome.kind.value,
            operation_id=event.operation.operation_id,
            dry_run=False,
            repeated=outcome.repeated,
            before=None,
            status=outcome.status,
            revision=outcome.revision,
            commands=list(outcome.commands),
            reasons=[],
            undo=[],
        )

    @classmethod
    def foreseen(cls, saga_id: str, event: ManagementEvent, preview: Preview) -> OperationAnswer:
        """Return what an operation would do."""
        return cls(
            saga_id=saga_id,
            kind=event.kind.value,
            operation_id=event.operation.operation_id,
            dry_run=True,
            repeated=False,
            before=preview.before,
            status=preview.after,
            revision=None,
            commands=[_describe(command) for command in preview.commands],
            reasons=[reason.value for reason in preview.reasons],
            undo=list(preview.plan.members) if preview.plan else [],
        )


def _describe(command: IssueCommand) -> str:
    target = f" of {command.target}" if command.target else ""
    return f"{command.phase}{target} {command.activation} attempt {command.attempt}"
