"""API keys: made, listed, revoked; nobody gives away what they lack."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Response

from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import ApiKeys, Permission
from sagabus_orchestrator.api.models.keys import (
    KeyAnswer,
    KeyList,
    KeyListQuestion,
    KeyMade,
    KeyName,
    KeyQuestion,
    RevokeQuestion,
)
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted

__all__ = ["router"]

router = new_router("keys")


@router.post("/keys", status_code=201, response_model=KeyMade, responses=refusals(409))
@permitted(Permission.KEY_CREATE)
async def create_key(
    question: KeyQuestion, caller: Caller, services: Services, response: Response
) -> KeyMade:
    """Make a key and show it this once; it can do no more than the caller, for no more tenants.

    If the answer is lost, so is the key: revoke it, and make one under another name.
    """
    made, text = await ApiKeys(services.database).create(
        question.request(), caller, question.reason
    )
    response.headers["cache-control"] = "no-store"  # no proxy keeps the secret
    return KeyMade.made(made, text)


@router.get("/keys", response_model=KeyList, responses=refusals())
@permitted(Permission.KEY_READ)
async def list_keys(
    caller: Caller, services: Services, asked: Annotated[KeyListQuestion, Query()]
) -> KeyList:
    """List keys by name, without their secrets: those whose tenants are all the caller's."""
    found = await ApiKeys(services.database).list(caller, asked.limit + 1, asked.cursor or "")
    page = found[: asked.limit]
    more = len(found) > asked.limit
    return KeyList(keys=list(map(KeyAnswer.of, page)), next_cursor=page[-1].name if more else None)


@router.post("/keys/{key_name}/revoke", response_model=KeyAnswer, responses=refusals(404))
@permitted(Permission.KEY_REVOKE)
async def revoke_key(
    key_name: KeyName, question: RevokeQuestion, caller: Caller, services: Services
) -> KeyAnswer:
    """Let a key count no longer: every process refuses it within its SAGABUS_API_KEY_CACHE_MS.

    A second time changes nothing. What the key had begun to ask is answered; a stream that it
    follows ends within half a minute.
    """
    return KeyAnswer.of(await ApiKeys(services.database).revoke(key_name, caller, question.reason))
