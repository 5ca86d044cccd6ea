"""Dead letters: looked through, redriven, discarded."""

from __future__ import annotations

import base64
import binascii
import uuid
from typing import Annotated

from fastapi import Query

from sagabus_core.canonical import sha256_hex
from sagabus_core.errors import InvalidValue
from sagabus_messages import Kind, parse_strict
from sagabus_orchestrator import letters
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import Permission, Principal
from sagabus_orchestrator.api.models.fields import SagaId
from sagabus_orchestrator.api.models.letters import (
    DeedAnswer,
    DiscardQuestion,
    LetterAnswer,
    LetterDetail,
    LetterPage,
    LettersQuestion,
    RedriveQuestion,
)
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted
from sagabus_orchestrator.letters import Deed, Letter, LetterFilter
from sagabus_orchestrator.redrive import LetterOutcome

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
    beyond = _place(asked.cursor) if asked.cursor is not None else None
    tenants = caller.tenants.as_filter()
    async with services.database.connection() as conn:
        found = await letters.page(conn, wanted, asked.limit + 1, beyond, tenants)
    page = found[: asked.limit]
    return LetterPage(
        dead_letters=list(map(LetterAnswer.of, page)),
        next_cursor=_cursor(page[-1]) if len(found) > asked.limit else None,
    )


@router.get("/dead-letters/{letter_id}", response_model=LetterDetail, responses=refusals(404))
@permitted(Permission.DLT_READ)
async def get_letter(letter_id: SagaId, caller: Caller, services: Services) -> LetterDetail:
    """Return one dead letter: the record, why it failed, what was done to it."""
    letter = await _seen(services, caller, letter_id)
    async with services.database.connection() as conn:
        history = await letters.history(conn, letter)
    return LetterDetail.of_letter(letter, [dict(row) for row in history])


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
    return _done(done, deed, dry_run=question.dry_run)


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
    return _done(done, deed, dry_run=question.dry_run)


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


def _done(done: LetterOutcome, deed: Deed, *, dry_run: bool) -> DeedAnswer:
    return DeedAnswer(
        id=done.letter.id,
        effect=done.effect,
        operation_id=deed.operation_id,
        repeated=done.repeated,
        dry_run=dry_run,
    )


def _cursor(letter: Letter) -> str:
    topic, partition, offset = letter.place
    return base64.urlsafe_b64encode(f"{partition} {offset} {topic}".encode()).decode().rstrip("=")


def _place(cursor: str) -> tuple[str, int, int]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        partition, offset, topic = base64.urlsafe_b64decode(padded).decode("ascii").split(" ", 2)
        place = (topic, int(partition), int(offset))
    except (ValueError, binascii.Error) as cause:
        raise InvalidValue("invalid_cursor", "take the cursor from the page before") from cause
    if not 0 <= place[1] < 2**31 or not 0 <= place[2] < 2**63 or "\0" in topic:
        raise InvalidValue("invalid_cursor", "take the cursor from the page before")
    return place
