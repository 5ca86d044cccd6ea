"""Lifecycle events as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Annotated, Any, Final

from fastapi import Header, Query
from fastapi.responses import StreamingResponse
from pydantic import Field

from sagabus_core.vocabulary import SagaStatus
from sagabus_messages.strict_json import dump
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.feed import BEGINNING, Change, Followed, Position
from sagabus_orchestrator.api.identity import Permission
from sagabus_orchestrator.api.models.fields import Key, Name, Question, SagaId, at
from sagabus_orchestrator.api.routing import Caller, Lasting, Services, new_router, permitted
from sagabus_orchestrator.api.standing import Standing
from sagabus_orchestrator.queries import SagaFilter

__all__ = ["router"]

router = new_router("events")

STREAM_S: Final = 900.0
"""Longest life of a stream: then its reader resumes, and is asked anew who it is."""
_HEADERS: Final = {"cache-control": "no-store", "x-accel-buffering": "no"}
_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Server-sent events: `id` resumes, `event` is `status`, `data` is JSON with "
        "saga_id, tenant, workflow, business_key, revision, before, status, reason, journal_head "
        "and recorded_at",
        "content": {"text/event-stream": {"schema": {"type": "string"}}},
    },
    **refusals(404, 410),
}
LastId = Annotated[
    int | None,
    Header(
        alias="Last-Event-ID",
        ge=0,
        le=2**53 - 1,
        description="Go on behind this event, as browsers do by themselves.",
    ),
]


class FollowQuestion(Question):
    """Which changes; what is left out does not restrict."""

    tenant: Key | None = None
    workflow: Name | None = None
    status: list[SagaStatus] = Field(default_factory=list)
    """A saga came to one of these; may stand several times."""


@router.get("/sagas/{saga_id}/events", response_class=StreamingResponse, responses=_STREAM)
@permitted(Permission.SAGA_READ)
async def follow_saga(
    saga_id: SagaId,
    caller: Caller,
    standing: Lasting,
    services: Services,
    last_event_id: LastId = None,
) -> StreamingResponse:
    """Follow one saga from its start, or behind an event: every change of status, in order.

    The stream ends after a quarter of an hour, when this replica stops, when its reader does not
    keep up (resume it), or within half a minute when the caller loses the right to it.
    """
    await services.saga(caller, saga_id)
    behind = BEGINNING if last_event_id is None else last_event_id
    return await _stream(services, Followed(saga_id), behind, standing)


@router.get("/events", response_class=StreamingResponse, responses=_STREAM)
@permitted(Permission.SAGA_LIST)
async def follow_sagas(
    caller: Caller,
    standing: Lasting,
    services: Services,
    asked: Annotated[FollowQuestion, Query()],
    last_event_id: LastId = None,
) -> StreamingResponse:
    """Follow all sagas that fit, from now on or behind an event.

    Each change comes once, those of one saga in their order, however late its transaction commits;
    changes wait while an older transaction that has written runs. Ends as the stream of one saga.
    """
    followed = Followed(
        tenants=SagaFilter(asked.tenant, tenants=caller.tenants.as_filter()).owners,
        workflow=asked.workflow,
        statuses=frozenset(asked.status) or None,
    )
    return await _stream(services, followed, last_event_id, standing)


async def _stream(
    services: Backend, followed: Followed, behind: int | None, standing: Standing
) -> StreamingResponse:
    if behind is not None:
        await services.feed.require_kept(behind)
    events = services.feed.follow(followed, behind, STREAM_S)
    return StreamingResponse(_texts(events, standing), 200, _HEADERS, "text/event-stream")


async def _texts(
    events: AsyncGenerator[Change | Position, None], standing: Standing
) -> AsyncIterator[bytes]:
    async with aclosing(events):
        async for event in events:
            if not await standing.lasts():
                return
            yield _text(event)


def _text(event: Change | Position) -> bytes:
    if isinstance(event, Position):
        return b"id: %d\n\n" % event.seq  # no data: readers note the id and tell nobody
    return b"id: %d\nevent: status\ndata: %s\n\n" % (event.seq, dump(_body(event)))


def _body(change: Change) -> dict[str, object]:
    return {
        "saga_id": change.saga_id,
        "tenant": change.tenant,
        "workflow": change.workflow,
        "business_key": change.business_key,
        "revision": change.revision,
        "before": change.before,
        "status": change.status,
        "reason": change.reason,
        "journal_head": change.journal_head,
        "recorded_at": at(change.recorded_at),
    }
