"""Reading sagas: one, its outcome, its plan, lists."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import Query
from pydantic import Field

from sagabus_core.engine import preview_compensation
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages.payloads import write_payload
from sagabus_messages.strict_json import dump, load
from sagabus_orchestrator.api.backend import Backend, seen_by
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission
from sagabus_orchestrator.api.models.fields import InstantIn, Key, Name, Question, SagaId, moment
from sagabus_orchestrator.api.models.sagas import (
    OutcomeAnswer,
    PlanAnswer,
    SagaAnswer,
    SagaPage,
    summary_fields,
)
from sagabus_orchestrator.api.models.why import WhyAnswer
from sagabus_orchestrator.api.outcomes import output_of, reason_of
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.api.waiting import Standing
from sagabus_orchestrator.errors import NotFound
from sagabus_orchestrator.queries import SagaDetail, SagaFilter
from sagabus_orchestrator.why import explain

__all__ = ["router"]

router = new_router("sagas")

MAX_WAIT_MS: Final = 60_000
"""Longest long poll: proxies on the way cut what is silent for longer."""
MAX_PAGE: Final = 1_000


class ListQuestion(Question):
    """Which sagas to list; what is left out does not restrict."""

    tenant: Key | None = None
    workflow: Name | None = None
    status: list[SagaStatus] = Field(default_factory=list)
    """One of these; may stand several times."""
    key_prefix: Key | None = None
    """How the business key begins."""
    created_from: InstantIn | None = None
    created_before: InstantIn | None = None
    archived: bool = False
    """Those that were archived too."""
    limit: int = Field(default=50, ge=1, le=MAX_PAGE)
    cursor: str | None = Field(default=None, max_length=200)
    """Goes on after a page: its `next_cursor`."""


class WaitQuestion(Question):
    """How long to wait, and for what."""

    timeout_ms: int = Field(default=0, ge=0, le=MAX_WAIT_MS)
    """0 answers at once."""
    after_revision: int | None = Field(default=None, ge=0, le=2**53 - 1)
    """Wait until the saga has a later revision; left out: until it is settled."""


class KeyQuestion(Question):
    """A saga by what people call it."""

    business_key: Key
    tenant: Key | None = None
    workflow: Name | None = None


@router.get("/sagas", response_model=SagaPage, responses=refusals())
@permitted(Permission.SAGA_LIST)
async def list_sagas(
    caller: Caller, services: Services, asked: Annotated[ListQuestion, Query()]
) -> SagaPage:
    """List sagas, newest first, by keyset: what begins meanwhile shifts no page."""
    wanted = SagaFilter(
        tenant=asked.tenant,
        workflow=asked.workflow,
        statuses=asked.status or None,
        key_prefix=asked.key_prefix,
        tenants=caller.tenants.as_filter(),
        created_from=moment(asked.created_from),
        created_before=moment(asked.created_before),
        archived=asked.archived,
    )
    return SagaPage.of(await services.reader.page(wanted, asked.limit, asked.cursor))


@router.get("/saga-by-key", response_model=SagaAnswer, responses=refusals(404, 409))
@permitted(Permission.SAGA_READ)
async def find_saga(
    caller: Caller, services: Services, asked: Annotated[KeyQuestion, Query()]
) -> SagaAnswer:
    """Find the saga of a business key; `ambiguous_key` where tenant or workflow must be named."""
    tenants = SagaFilter(asked.tenant, tenants=caller.tenants.as_filter()).owners
    found = await services.reader.by_key(asked.business_key, asked.workflow, tenants)
    return SagaAnswer.of_detail(seen_by(caller, await services.reader.head(found)))


@router.get("/sagas/{saga_id}", response_model=SagaAnswer, responses=refusals(404))
@permitted(Permission.SAGA_READ)
async def get_saga(saga_id: SagaId, caller: Caller, services: Services) -> SagaAnswer:
    """Return one saga, also from the archive."""
    return SagaAnswer.of_detail(await services.saga(caller, saga_id))


@router.get("/sagas/{saga_id}/outcome", response_model=OutcomeAnswer, responses=refusals(404))
@permitted(Permission.SAGA_READ)
async def wait_for_outcome(
    saga_id: SagaId, caller: Caller, services: Services, asked: Annotated[WaitQuestion, Query()]
) -> OutcomeAnswer:
    """Return where a saga stands; with `timeout_ms`, once what is waited for is true.

    When the time is up the answer is the present state: `settled` says whether to ask again.
    """
    detail = await services.saga(caller, saga_id)

    def enough(standing: Standing) -> bool:
        if asked.after_revision is not None and standing.revision > asked.after_revision:
            return True
        return standing.is_settled

    if asked.timeout_ms and not enough(_standing(detail)):
        with services.shares.waits.held_by(caller.actor):
            await services.watch.wait(saga_id, enough, asked.timeout_ms / 1000)
        detail = await services.saga(caller, saga_id)
    return _outcome(detail, services)


@router.get("/sagas/{saga_id}/plan", response_model=PlanAnswer, responses=refusals(404))
@permitted(Permission.SAGA_READ)
async def get_plan(saga_id: SagaId, caller: Caller, services: Services) -> PlanAnswer:
    """Return the frozen plan; before any abort, what one would undo as things stand."""
    detail = await services.saga(caller, saga_id)
    saga = detail.snapshot
    plan = saga.plan or preview_compensation(services.definition_of(detail), saga)
    return PlanAnswer(
        frozen=saga.plan is not None,
        version=plan.version,
        digest=plan.digest,
        members=list(plan.members),
    )


@router.get("/sagas/{saga_id}/why", response_model=WhyAnswer, responses=refusals(404))
@permitted(Permission.SAGA_READ)
async def explain_saga(saga_id: SagaId, caller: Caller, services: Services) -> WhyAnswer:
    """Say what a saga waits for: who was asked what until when, and what would move it."""
    detail = await services.saga(caller, saga_id)
    facts = await services.gatherer().facts(detail)
    return WhyAnswer.of(detail, facts, explain(facts))


def _standing(detail: SagaDetail) -> Standing:
    saga = detail.snapshot
    return Standing(saga.status, saga.control, saga.revision)


def _outcome(detail: SagaDetail, services: Backend) -> OutcomeAnswer:
    saga = detail.snapshot
    try:
        output = output_of(saga, services.definition_of(detail))
    except NotFound:
        output = None  # this replica has not loaded it yet: the status is true all the same
    members = summary_fields(detail.summary)
    return OutcomeAnswer(
        **{name: members[name] for name in OutcomeAnswer.model_fields.keys() & members.keys()},
        settled=_standing(detail).is_settled,
        reason_code=reason_of(saga),
        output=load(dump(write_payload(output))) if output is not None else None,
    )
