"""Journal and audit: what happened, and who asked for it."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from fastapi import Query
from fastapi.responses import Response
from pydantic import Field

from sagabus_messages.strict_json import RawJson, dump
from sagabus_orchestrator import cursors
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.evidence import (
    AuditPageAnswer,
    AuditQuestion,
    FactPageAnswer,
    JournalPageAnswer,
    PageQuestion,
)
from sagabus_orchestrator.api.models.fields import Question, SagaId, at, moment
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.audit import Wanted
from sagabus_orchestrator.queries import SagaFilter, StoredFact

__all__ = ["router"]

router = new_router("evidence")

_MOST_REVISIONS: Final = 2**53 - 1
_MOST_ORDINALS: Final = 2**31 - 1
_BEGINNING: Final = (-1, -1)


class JournalQuestion(Question):
    """From where on, and how many."""

    limit: int = Field(default=200, ge=1, le=1_000)
    cursor: str | None = Field(default=None, max_length=40)
    """Goes on after a page: its `next_cursor`."""


@router.get("/sagas/{saga_id}/journal", response_model=JournalPageAnswer, responses=refusals(404))
@permitted(Permission.JOURNAL_READ)
async def read_saga_journal(
    saga_id: SagaId, caller: Caller, services: Services, asked: Annotated[JournalQuestion, Query()]
) -> Response:
    """Return the facts of one saga in order, each byte for byte with the head of the chain."""
    saga = await services.saga(caller, saga_id)
    beyond = _place(asked.cursor)
    facts = await services.reader.facts(saga, beyond, asked.limit + 1)
    page = facts[: asked.limit]
    more = len(facts) > asked.limit
    body = {
        "facts": [_stored(fact) for fact in page],
        "next_cursor": f"{page[-1].revision}.{page[-1].ordinal}" if more else None,
    }
    return Response(dump(body), media_type="application/json")


@router.get("/journal", response_model=FactPageAnswer, responses=refusals())
@permitted(Permission.JOURNAL_READ)
async def read_journal(
    caller: Caller, services: Services, asked: Annotated[PageQuestion, Query()]
) -> FactPageAnswer:
    """Page over the facts of all sagas by their global number.

    Going on at each page's cursor sees every fact once, whatever commits meanwhile and however
    late; an empty page with `more` only says that nothing fitted the filter so far.
    """
    page = await services.pages.facts(_wanted(caller, asked), asked.limit, asked.cursor)
    return FactPageAnswer.of(page, all_tenants=caller.tenants.everyone)


@router.get("/audit", response_model=AuditPageAnswer, responses=refusals())
@permitted(Permission.AUDIT_READ)
async def read_audit(
    caller: Caller, services: Services, asked: Annotated[AuditQuestion, Query()]
) -> AuditPageAnswer:
    """Page over management operations, done and refused, by their global number."""
    wanted = _wanted(caller, asked, asked.outcome)
    page = await services.pages.audit(wanted, asked.limit, asked.cursor)
    withheld = await services.trail.withheld() if caller.tenants.everyone else None
    return AuditPageAnswer.of(page, withheld)


def _wanted(
    caller: Principal, asked: PageQuestion, outcome: Literal["done", "refused"] | None = None
) -> Wanted:
    return Wanted(
        tenants=SagaFilter(asked.tenant, tenants=caller.tenants.as_filter()).owners,
        workflow=asked.workflow,
        saga_id=asked.saga_id,
        kind=asked.kind,
        actor=asked.actor,
        since=moment(asked.since),
        until=moment(asked.until),
        outcome=outcome,
    )


def _stored(fact: StoredFact) -> dict[str, object]:
    return {
        "revision": fact.revision,
        "ordinal": fact.ordinal,
        "fact": RawJson(fact.fact),
        "head": fact.head,
        "recorded_at": at(fact.recorded_at),
    }


def _place(cursor: str | None) -> tuple[int, int]:
    if cursor is None:
        return _BEGINNING
    revision, _, ordinal = cursor.partition(".")
    return cursors.integer(revision, _MOST_REVISIONS), cursors.integer(ordinal, _MOST_ORDINALS)
