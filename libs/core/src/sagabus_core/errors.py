"""Errors of the pure core.

    SagabusError                 root of every error of this project; has a stable code
    ├── InvalidValue             a name, number, text or document breaks a documented rule
    │   └── InvalidDefinition    a workflow definition is unsafe or malformed (all problems at once)
    ├── IllegalTransition        the machine met a state and input that its table does not list
    ├── AttemptNeverIssued       an answer to a command that was never issued: dead-letter it
    ├── OperationRefused         a management operation does not fit the present state
    ├── StaleSnapshot            the caller expected another revision
    ├── SnapshotTooNew           a replica met a snapshot that a newer release wrote
    ├── RequestConflict          the business key is taken by a different start request
    ├── DefinitionUnknown        no such workflow, or version of it, was ever published
    ├── DefinitionInactive       it is published, and may not start
    └── ConditionError           an expression could not be evaluated

Each class says by `retryable` whether the same call can succeed later without any change by
the caller. Each package has its own root below `SagabusError`.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "AttemptNeverIssued",
    "ConditionError",
    "DefinitionInactive",
    "DefinitionUnknown",
    "IllegalTransition",
    "InvalidValue",
    "OperationRefused",
    "RequestConflict",
    "SagabusError",
    "SnapshotTooNew",
    "StaleSnapshot",
]


class SagabusError(Exception):
    """An error with a stable, documented code.

    `code` is lower snake case and listed in `contracts/errors.md`; `detail` is one sentence for
    people that names what is wrong and how to mend it, and holds no secret and no payload.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type[SagabusError], tuple[str, str]]:
        # Without this, pickling across a process pool would call the constructor with one argument.
        return (type(self), (self.code, self.detail))


class InvalidValue(SagabusError):
    """A value at a door breaks a documented rule; the same value will never be accepted."""


class IllegalTransition(SagabusError):
    """The transition table lists no move for this state and input: a programming error."""


class AttemptNeverIssued(SagabusError):
    """An answer names an (activation, phase, target, attempt) that was never issued."""


class OperationRefused(SagabusError):
    """A management operation does not fit the present state (`precondition_failed`)."""


class StaleSnapshot(SagabusError):
    """The caller expected another revision than the present one (`stale_snapshot`)."""


class SnapshotTooNew(SagabusError):
    """A newer release wrote this snapshot: hold the message until this replica is replaced."""

    retryable = True


class RequestConflict(SagabusError):
    """The business key belongs to a start request with other content (`request_conflict`)."""


class DefinitionUnknown(SagabusError):
    """The tenant's scope has no such workflow, or not this version (`definition_unknown`)."""


class DefinitionInactive(SagabusError):
    """What the tenant's scope has of this workflow may not start (`definition_inactive`)."""


class ConditionError(SagabusError):
    """An expression could not be evaluated on the present variables (`condition_error`)."""
