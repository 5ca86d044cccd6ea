"""Bulk operations as callers see them."""

from __future__ import annotations

from pydantic import Field

from sagabus_core.vocabulary import Control, SagaStatus
from sagabus_orchestrator import cursors
from sagabus_orchestrator.api.models.fields import (
    Answer,
    InstantIn,
    InstantText,
    Key,
    Name,
    Question,
    Text,
    at,
)
from sagabus_orchestrator.bulk import Bulk, BulkFilter, BulkKind, BulkState
from sagabus_orchestrator.bulk.bulks import MOST
from sagabus_orchestrator.bulk.values import Refusal

__all__ = [
    "BulkAnswer",
    "BulkList",
    "BulkListQuestion",
    "BulkPreview",
    "BulkQuestion",
    "RefusalList",
    "RefusalsQuestion",
    "SteerBulkQuestion",
]


class BulkFilterQuestion(Question):
    """Which sagas that are not at their end are meant; what is left out does not restrict."""

    tenant: Key | None = None
    workflow: Name | None = None
    statuses: list[SagaStatus] | None = Field(default=None, min_length=1, max_length=8)
    key_prefix: Key | None = None
    control: Control | None = None
    since: InstantIn | None = None
    until: InstantIn | None = None
    participant: Name | None = None
    """A command of this participant is open now."""
    step: Name | None = None
    """A command of this step is open now."""


class BulkQuestion(Question):
    """One operation on every saga that fits."""

    kind: BulkKind
    filter: BulkFilterQuestion
    most: int = Field(ge=1, le=MOST)
    """Refused (`bulk_too_large`) if more sagas fit."""
    reason: Text
    operation_id: Key
    """Your id: the same one again begins nothing more."""


class SteerBulkQuestion(Question):
    """Why."""

    reason: Text


class BulkListQuestion(Question):
    """How many, and from where on."""

    limit: int = Field(default=50, ge=1, le=500)
    cursor: str | None = Field(default=None, max_length=cursors.MOST)
    """Goes on after a page: its `next_cursor`."""


class RefusalsQuestion(Question):
    """How many, and from where on."""

    limit: int = Field(default=100, ge=1, le=1_000)
    cursor: str | None = Field(default=None, max_length=cursors.MOST)
    """Goes on after a page: its `next_cursor`."""


class BulkFilterAnswer(Answer):
    """Which sagas are meant; null does not restrict."""

    tenants: list[str] | None
    workflow: str | None
    statuses: list[SagaStatus] | None
    key_prefix: str | None
    control: Control | None
    since: InstantText | None
    until: InstantText | None
    participant: str | None
    step: str | None

    @classmethod
    def of(cls, wanted: BulkFilter) -> BulkFilterAnswer:
        """Return a filter as callers see it."""
        return cls(
            tenants=None if wanted.tenants is None else list(wanted.tenants),
            workflow=wanted.workflow,
            statuses=None if wanted.statuses is None else list(wanted.statuses),
            key_prefix=wanted.key_prefix,
            control=wanted.control,
            since=None if wanted.since is None else at(wanted.since),
            until=None if wanted.until is None else at(wanted.until),
            participant=wanted.participant,
            step=wanted.step,
        )


class BulkAnswer(Answer):
    """A bulk operation with its progress; `overdue`: nobody works on it at present."""

    id: str
    kind: BulkKind
    filter: BulkFilterAnswer
    state: BulkState
    most: int
    done: int
    refused: int
    failed: int
    note: str
    """Why it waits."""
    overdue: bool
    actor: str
    reason: str
    operation_id: str
    created_at: InstantText
    updated_at: InstantText

    @classmethod
    def of(cls, bulk: Bulk) -> BulkAnswer:
        """Return a bulk operation as callers see it."""
        order = bulk.order
        return cls(
            id=bulk.id,
            kind=order.kind,
            filter=BulkFilterAnswer.of(order.wanted),
            state=bulk.state,
            most=order.most,
            done=bulk.done,
            refused=bulk.refused,
            failed=bulk.failed,
            note=bulk.note,
            overdue=bulk.is_overdue,
            actor=order.actor,
            reason=order.reason,
            operation_id=order.operation_id,
            created_at=at(bulk.created_at),
            updated_at=at(bulk.updated_at),
        )


class BulkList(Answer):
    """Bulk operations, newest first."""

    bulk_operations: list[BulkAnswer]
    next_cursor: str | None


class BulkPreview(Answer):
    """What a bulk operation would mean now."""

    matching: int
    """Counted to one more than `most`."""
    too_large: bool
    samples: list[str]
    """Business keys of some."""


class RefusalAnswer(Answer):
    """A saga that could not be changed, and why."""

    saga_id: str
    business_key: str
    code: str
    detail: str

    @classmethod
    def of(cls, refusal: Refusal) -> RefusalAnswer:
        """Return a refusal as callers see it."""
        return cls(
            saga_id=refusal.saga_id,
            business_key=refusal.business_key,
            code=refusal.code,
            detail=refusal.detail,
        )


class RefusalList(Answer):
    """Sagas that could not be changed, by id."""

    refusals: list[RefusalAnswer]
    next_cursor: str | None
