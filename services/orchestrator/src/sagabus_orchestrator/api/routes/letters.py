"""Dead letters: looked through, redriven, discarded."""

from __future__ import annotations

import uuid
from typing import Annotated

from fastapi import Query

from sagabus_core.canonical import sha256_hex
from sagabus_messages import Kind, parse_strict
from sagabus_orchestrator import letters
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.letter_pages import read_letter, read_page
from sagabus_orchestrator.api.models.fields import SagaId
from sagabus_orchestrator.api.models.letters import (
    DeedAnswer,
    DiscardQuestion,
    LetterDetail,
    LetterPage,
    LettersQuestion,
    RedriveQuestion,
)
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.letters import Deed, Letter, LetterFilter
from sagabus_orchestrator.queries import SagaFilter

__all__ = ["router"]

router = new_router("dead letters")


@router.get("/dead-letters", response_model=LetterPage, responses=refusals())
@permitted(Permission.DLT_READ)
async def list_letters(
    caller: Caller, services: Services, asked: Annotated[LettersQuestion, Query()]
) -> LetterPage:
    """List dead letters in the order in which they may be redriven.

    Whoever sees some tenants only sees the letters of their sagas.
    """
    state = None if asked.state == "any" else asked.state
    wanted = LetterFilter(state, asked.topic, asked.code, asked.kind, asked.saga_id)
    tenants = SagaFilter(asked.tenant, tenants=caller.tenants.as_filter()).owners
    return await read_page(services.database, wanted, asked.limit, asked.cursor, tenants)


@router.get("/dead-letters/{letter_id}", response_model=LetterDetail, responses=refusals(404))
@permitted(Permission.DLT_READ)
async def get_letter(letter_id: SagaId, caller: Caller, services: Services) -> LetterDetail:
    """Return one dead letter: the record, why it failed, what was done to it."""
    letter = await _seen(services, caller, letter_id)
    return await read_letter(services.database, letter.id)


@router.post(
    "/dead-letters/{letter_id}/redrive",
    response_model=DeedAnswer,
    responses=refusals(404, 409, 413, 422, 429),
)
@permitted(Permission.DLT_REDRIVE)
async def redrive_letter(
    letter_id: SagaId, question: RedriveQuestion, caller: Caller, services: Services
) -> DeedAnswer:
    """Handle a letter again with every check, once, in the order of its key."""
    letter = await _seen(services, caller, letter_id)
    edited = None if question.edited_body is None else question.edited_body.encode()
    if edited is not None and letter.kind == Kind.START:
        _require_own(caller, edited)
    deed = Deed(
        kind="redrive",
        operation_id=question.operation_id or str(uuid.uuid4()),
        actor=caller.actor,
        reason=question.reason,
        request="redrive" if edited is None else f"redrive:{sha256_hex(edited)}",
        edited=edited,
    )
    done = await services.letters().perform(letter_id, deed, dry_run=question.dry_run)
    return DeedAnswer.of(done, deed.operation_id, dry_run=question.dry_run)


@router.post(
    "/dead-letters/{letter_id}/discard",
    response_model=DeedAnswer,
    responses=refusals(404, 409, 429),
)
@permitted(Permission.DLT_DISCARD)
async def discard_letter(
    letter_id: SagaId, question: DiscardQuestion, caller: Caller, services: Services
) -> DeedAnswer:
    """Close a letter for good without handling it."""
    await _seen(services, caller, letter_id)
    operation_id = question.operation_id or str(uuid.uuid4())
    deed = Deed("discard", operation_id, caller.actor, question.reason, "discard")
    done = await services.letters().perform(letter_id, deed, dry_run=question.dry_run)
    return DeedAnswer.of(done, deed.operation_id, dry_run=question.dry_run)


async def _seen(services: Backend, caller: Principal, letter_id: str) -> Letter:
    async with services.database.connection() as conn:
        letter = await letters.find(conn, letter_id)
        owner = await letters.owner(conn, letter)
    if not caller.tenants.everyone and (owner is None or not caller.sees(owner)):
        raise letters.unknown(letter_id)
    return letter


def _require_own(caller: Principal, edited: bytes) -> None:
    """Refuse a start that was edited into another tenant's; whose a command is stays as it is."""
    body = parse_strict(edited)
    tenant = body.get("tenant") if isinstance(body, dict) else None
    if isinstance(tenant, str):
        caller.require_tenant(tenant)
