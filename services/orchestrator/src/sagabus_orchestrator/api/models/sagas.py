"""Sagas as callers see them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from sagabus_core.engine import Activation, Member
from sagabus_core.vocabulary import Control, Direction, SagaStatus
from sagabus_orchestrator.api.models.fields import (
    Answer,
    InstantIn,
    InstantText,
    Key,
    Name,
    PayloadIn,
    PayloadOut,
    Question,
    Version,
    at,
    at_ms,
)
from sagabus_orchestrator.queries import Page, SagaDetail, SagaSummary

__all__ = [
    "OutcomeAnswer",
    "PlanAnswer",
    "SagaAnswer",
    "SagaPage",
    "StartQuestion",
    "StartedAnswer",
    "SummaryAnswer",
]


class StartQuestion(Question):
    """Begin the saga of a business key: one saga per key, for ever."""

    tenant: Key
    workflow: Name
    business_key: Key
    definition_version: Version | None = None
    """The newest active version where none is named."""
    deadline_at: InstantIn | None = None
    """The instance deadline: before a pivot it turns the saga back."""
    payload: PayloadIn | None = None


class StartedAnswer(Answer):
    """The saga of a start."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    definition_version: int
    start_id: str
    """Names the request that is answered; lifecycle events of a new saga carry it."""
    status: SagaStatus
    revision: int | None
    """Null once the saga is in the archive."""
    created: bool
    """False: an equal request had started it before."""


class SummaryAnswer(Answer):
    """One saga of a list."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    definition_version: int
    status: SagaStatus
    control: Control
    revision: int
    created_at: InstantText
    updated_at: InstantText
    archived_at: InstantText | None

    @classmethod
    def of(cls, saga: SagaSummary) -> SummaryAnswer:
        """Return a summary as callers see it."""
        return cls(**summary_fields(saga))


class SagaPage(Answer):
    """Sagas, newest first."""

    sagas: list[SummaryAnswer]
    next_cursor: str | None
    """Goes on after this page; null on the last one."""

    @classmethod
    def of(cls, page: Page) -> SagaPage:
        """Return a page as callers see it."""
        return cls(sagas=list(map(SummaryAnswer.of, page.sagas)), next_cursor=page.next_cursor)


class TrackAnswer(Answer):
    """One step of a saga, or the undo of one."""

    activation: str
    state: str
    halted: bool
    late: bool
    """Its deadline has passed; that proves nothing, so it is asked what happened."""
    attempts: dict[str, int]
    """Commands issued, by what they ask."""
    answers: dict[str, str]
    deadline_at: InstantText | None
    retry_at: InstantText | None


class AbortAnswer(Answer):
    """Why a saga turns back."""

    reason: str
    cause: str


class PlanAnswer(Answer):
    """What is undone, in order."""

    frozen: bool
    """False: what an abort would undo as things stand; what is open could still join in front."""
    version: int
    digest: str
    members: list[str]


class SagaAnswer(SummaryAnswer):
    """One saga with everything that decisions rest on."""

    definition_digest: str
    direction: Direction
    abort: AbortAnswer | None
    deadline_at: InstantText | None
    variables: dict[str, Any]
    steps: list[TrackAnswer]
    undo: list[TrackAnswer]
    plan: PlanAnswer | None
    branches: dict[str, str]
    reasons: dict[str, str]
    """Why a person is asked, by what it is about."""
    armed_at: InstantText | None
    journal_head: str

    @classmethod
    def of_detail(cls, detail: SagaDetail) -> SagaAnswer:
        """Return a saga as callers see it."""
        saga = detail.snapshot
        head = {**summary_fields(detail.summary)}
        head["archived_at"] = at(detail.archived_at) if detail.archived_at else None
        return cls(
            **head,
            definition_digest=detail.definition_digest,
            direction=saga.direction,
            abort=AbortAnswer(reason=saga.abort.reason, cause=saga.abort.cause)
            if saga.abort
            else None,
            deadline_at=at_ms(saga.deadline_at_ms),
            variables=dict(saga.variables),
            steps=_tracks(saga.activations),
            undo=_tracks(saga.members),
            plan=PlanAnswer(
                frozen=True,
                version=saga.plan.version,
                digest=saga.plan.digest,
                members=list(saga.plan.members),
            )
            if saga.plan
            else None,
            branches=dict(saga.branches),
            reasons={key: reason.value for key, reason in saga.reasons.items()},
            armed_at=at_ms(saga.armed_at_ms),
            journal_head=detail.journal_head,
        )


class OutcomeAnswer(Answer):
    """Where a saga stands, and what came out."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    definition_version: int
    status: SagaStatus
    control: Control
    revision: int
    settled: bool
    """True: it ended, or waits for an operator; nothing more happens by itself."""
    reason_code: str | None
    """Why it turned back or needs a person."""
    output: PayloadOut | None = Field(default=None)
    """What the workflow declares as its output, of a saga that is COMPLETED."""
    updated_at: InstantText


def summary_fields(saga: SagaSummary) -> dict[str, Any]:
    """Return the members that every answer about one saga has."""
    return {
        "saga_id": saga.saga_id,
        "tenant": saga.tenant,
        "workflow": saga.workflow,
        "business_key": saga.business_key,
        "definition_version": saga.version,
        "status": saga.status,
        "control": saga.control,
        "revision": saga.revision,
        "created_at": at(saga.created_at),
        "updated_at": at(saga.updated_at),
        "archived_at": at(saga.archived_at) if saga.archived_at else None,
    }


def _tracks(tracks: Mapping[str, Activation] | Mapping[str, Member]) -> list[TrackAnswer]:
    return [
        TrackAnswer(
            activation=path,
            state=track.state.value,
            halted=track.halted,
            late=isinstance(track, Activation) and track.late,
            attempts={channel.name: count for channel, count in track.attempts.items()},
            answers=dict(track.answers),
            deadline_at=at_ms(track.deadline_at_ms),
            retry_at=at_ms(track.retry_at_ms),
        )
        for path, track in tracks.items()
    ]
