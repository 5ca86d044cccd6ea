"""The processor's HTTP interface."""

from __future__ import annotations

import asyncio
import logging
from typing import Annotated, Final

from pydantic import BaseModel, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sagabus_example_cards.ledger import Ledger
from sagabus_example_cards.moods import mood_of
from sagabus_runtime.logs import get_logger

__all__ = ["HungUp", "application"]

EVENT_BROKEN: Final = "cards.connection_broken"


class HungUp(logging.Filter):
    """Keeps from the log of the HTTP server what it says about connections broken on purpose.

    No other answer of this application ends before its body, and each of these says so itself.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is worth keeping."""
        return "without completing response" not in record.getMessage()


class _ChargeRequest(BaseModel):
    reference: Annotated[str, Field(max_length=128)]
    card: Annotated[str, Field(max_length=64)]
    amount_cents: Annotated[int, Field(gt=0, lt=2**31)]


class _RefundRequest(BaseModel):
    charge_key: str


class _BrokenConnection(Response):
    """Promises a body and hangs up: the client never learns what was decided."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the head of an answer and nothing more."""
        del receive
        get_logger().info(EVENT_BROKEN, path=scope["path"])
        head = [(b"content-length", b"64"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": head})


BROKEN: Final = _BrokenConnection()


class _Processor:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def charge(self, request: Request) -> Response:
        order = _ChargeRequest.model_validate_json(await request.body())
        mood = mood_of(order.card)
        if mood.loses_request:
            return BROKEN
        decision = await self._ledger.charge(
            request.path_params["key"], order.reference, order.card, order.amount_cents
        )
        if decision.is_repeat:
            return JSONResponse(decision.body)
        if mood.delay_ms:
            await asyncio.sleep(mood.delay_ms / 1000)
        return BROKEN if mood.loses_answer else JSONResponse(decision.body)

    async def settle(self, request: Request) -> Response:
        return JSONResponse(await self._ledger.settle(request.path_params["key"]))

    async def refund(self, request: Request) -> Response:
        order = _RefundRequest.model_validate_json(await request.body())
        made = await self._ledger.refund(request.path_params["key"], order.charge_key)
        if made is None:
            return JSONResponse({"error": "nothing_charged"}, 409)
        lost = mood_of(made.card).loses_refund_answer and made.requests == 1
        return BROKEN if lost else JSONResponse({"refunded": True})

    async def was_refunded(self, request: Request) -> Response:
        refunded = await self._ledger.was_refunded(request.path_params["key"])
        return JSONResponse({"refunded": refunded})

    async def ledger(self, _request: Request) -> Response:
        return JSONResponse(await self._ledger.everything())


async def _bad_request(_request: Request, error: Exception) -> Response:
    return JSONResponse({"error": "bad_request", "detail": str(error)}, 400)


def application(ledger: Ledger) -> Starlette:
    """Return the HTTP application over a ledger."""
    processor = _Processor(ledger)
    routes = [
        Route("/charges/{key}", processor.charge, methods=["PUT"]),
        Route("/charges/{key}/settle", processor.settle, methods=["POST"]),
        Route("/refunds/{key}", processor.refund, methods=["PUT"]),
        Route("/refunds/{key}", processor.was_refunded, methods=["GET"]),
        Route("/ledger", processor.ledger, methods=["GET"]),
    ]
    return Starlette(routes=routes, exception_handlers={ValidationError: _bad_request})
