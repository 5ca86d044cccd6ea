"""Why a saga stands where it stands, as callers see it."""

from __future__ import annotations

from sagabus_core.vocabulary import Control, Direction, SagaStatus
from sagabus_orchestrator.api.models.fields import Answer, InstantText, at_ms
from sagabus_orchestrator.queries import SagaDetail
from sagabus_orchestrator.why import Asked, Explanation, Facts

__all__ = ["WhyAnswer"]


class AskedAnswer(Answer):
    """The last command of an open step, or its retry to come."""

    activation: str
    step: str
    participant: str | None
    phase: str
    target: str | None
    attempt: int
    command_id: str
    deadline_at: InstantText | None
    retry_at: InstantText | None
    budget_at: InstantText | None

    @classmethod
    def of(cls, item: Asked) -> AskedAnswer:
        """Return it as callers see it."""
        return cls(
            activation=item.path,
            step=item.step,
            participant=item.participant,
            phase=item.channel.phase.value,
            target=item.channel.target.value if item.channel.target else None,
            attempt=item.attempt,
            command_id=item.command_id,
            deadline_at=at_ms(item.deadline_at_ms),
            retry_at=at_ms(item.retry_at_ms),
            budget_at=at_ms(item.budget_at_ms),
        )


class PointAnswer(Answer):
    """One thing that is known."""

    about: str
    text: str


class WaitingRecordAnswer(Answer):
    """A record that the relay still has to send."""

    topic: str
    ce_id: str
    parked: bool
    reason: str | None


class PlaceAnswer(Answer):
    """Where a topic keeps the saga's records, and how far its readers are."""

    topic: str
    partition: int | None
    group: str
    live_members: int
    committed: int | None
    end: int | None


class FindingAnswer(Answer):
    """What the reconciler found wrong."""

    fault: str
    detail: str
    repaired: bool


class WhyAnswer(Answer):
    """What a saga waits for, and what would move it."""

    saga_id: str
    tenant: str
    workflow: str
    business_key: str
    definition_version: int
    status: SagaStatus
    control: Control
    direction: Direction
    revision: int
    waits_for: str
    """One stable word for programs."""
    moved_by: str
    """One sentence for people."""
    points: list[PointAnswer]
    commands: list[AskedAnswer]
    reasons: dict[str, str]
    deferred: int
    """Answers that are kept for the resume."""
    armed_at: InstantText | None
    outbox: list[WaitingRecordAnswer]
    kafka_problem: str | None
    topics: list[PlaceAnswer]
    findings: list[FindingAnswer]

    @classmethod
    def of(cls, detail: SagaDetail, facts: Facts, said: Explanation) -> WhyAnswer:
        """Return an explanation as callers see it."""
        head, saga = detail.summary, detail.snapshot
        return cls(
            saga_id=head.saga_id,
            tenant=head.tenant,
            workflow=head.workflow,
            business_key=head.business_key,
            definition_version=head.version,
            status=saga.status,
            control=saga.control,
            direction=saga.direction,
            revision=saga.revision,
            waits_for=said.waits_for,
            moved_by=said.moved_by,
            points=[PointAnswer(about=p.about, text=p.text) for p in said.points],
            commands=list(map(AskedAnswer.of, facts.asked)),
            reasons={key: reason.value for key, reason in saga.reasons.items()},
            deferred=facts.deferred,
            armed_at=at_ms(saga.armed_at_ms),
            outbox=[
                WaitingRecordAnswer(topic=r.topic, ce_id=r.ce_id, parked=r.parked, reason=r.reason)
                for r in facts.records
            ],
            kafka_problem=facts.bus.problem,
            topics=_places(facts),
            findings=[
                FindingAnswer(fault=f.fault, detail=f.detail, repaired=f.repaired)
                for f in facts.findings
            ],
        )


def _places(facts: Facts) -> list[PlaceAnswer]:
    return [
        PlaceAnswer(
            topic=place.topic,
            partition=place.partition,
            group=place.group,
            live_members=place.members,
            committed=place.committed,
            end=place.end,
        )
        for place in facts.bus.places
    ]
