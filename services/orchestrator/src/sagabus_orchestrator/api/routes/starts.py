"""Starting sagas."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header, Request, Response

from sagabus_messages import Start
from sagabus_messages.instants import parse_instant
from sagabus_messages.payloads import read_payload
from sagabus_messages.strict_json import member_text
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission
from sagabus_orchestrator.api.models.fields import Key
from sagabus_orchestrator.api.models.sagas import StartedAnswer, StartQuestion
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.api.starting import Started
from sagabus_orchestrator.api.trace import note_saga, traceparent_of

__all__ = ["router"]

router = new_router("sagas")

RequestKey = Annotated[
    Key | None,
    Header(
        alias="Idempotency-Key",
        description="Your name of this request: sent again under the same key it is answered "
        "again; another request under the same key is refused (`idempotency_key_reused`).",
    ),
]


@router.post(
    "/sagas",
    status_code=201,
    response_model=StartedAnswer,
    responses={
        200: {"model": StartedAnswer, "description": "An equal request had started it before"},
        **refusals(404, 409, 413, 422, 429),
    },
)
@permitted(Permission.SAGA_START)
async def start_saga(  # a parameter each, as FastAPI wants it
    question: StartQuestion,
    request: Request,
    response: Response,
    caller: Caller,
    services: Services,
    idempotency_key: RequestKey = None,
) -> StartedAnswer:
    """Start a saga.

    201: it exists and its first commands are on their way, durably. 200: it existed before, by an
    equal request. A business key that was used with other content is refused
    (`request_conflict`), whoever asks and however long ago.
    """
    caller.require_tenant(question.tenant)
    body = await _body(question, request)
    started = await services.starter.start(body, idempotency_key, traceparent_of(request))
    note_saga(request, started.saga_id)
    response.status_code = 201 if started.created else 200
    response.headers["location"] = f"/v1/sagas/{started.saga_id}"
    return _answer(question, started)


async def _body(question: StartQuestion, request: Request) -> Start:
    """Return the start with the exact text of its data, as it will be stored."""
    payload = None
    if question.payload is not None:
        text = None
        if "data" in question.payload:
            text = member_text(await request.body(), "payload", "data")
        payload = read_payload(question.payload, text)
    deadline = question.deadline_at
    return Start(
        tenant=question.tenant,
        workflow=question.workflow,
        definition_version=question.definition_version,
        business_key=question.business_key,
        deadline_at_ms=parse_instant(deadline) if deadline is not None else None,
        payload=payload,
    )


def _answer(question: StartQuestion, started: Started) -> StartedAnswer:
    return StartedAnswer(
        saga_id=started.saga_id,
        tenant=question.tenant,
        workflow=question.workflow,
        business_key=question.business_key,
        definition_version=started.version,
        start_id=started.start_id,
        status=started.status,
        revision=started.revision,
        created=started.created,
    )
