"""Calling handlers with a context of the caller's making: what test kits stand on.

A service calls handlers inside its transactions (`calls.py`); a test kit has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from sagabus_participant.calls import Due, _context_fields, _failure, _handler
from sagabus_participant.journal import Finding, Found, Reason
from sagabus_participant.outcomes import finding_of
from sagabus_participant.step import Context, ExternalContext, LocalContext

__all__ = ["Due", "call_handler", "external_context", "local_context"]


def local_context(due: Due, conn: Any) -> LocalContext:  # noqa: ANN401  (a team's own fake)
    """Return the context of a local step whose connection is `conn`."""
    return LocalContext(conn=conn, **_context_fields(due))


def external_context(due: Due, db: Any) -> ExternalContext:  # noqa: ANN401  (a team's own fake)
    """Return the context of an external step whose database is `db`."""
    return ExternalContext(db=db, **_context_fields(due))


async def call_handler(due: Due, ctx: Context, on_error: Callable[[Exception], None]) -> Finding:
    """Call the handler and return what was found, by the rules of a service.

    No exception of a handler gets further than here; `on_error` is told of each.
    """
    options = due.order.step.options
    try:
        async with asyncio.timeout(options.timeout_ms / 1000):
            outcome = await _handler(due, ctx)
        return finding_of(outcome, due.order.step.output_schema)
    except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
        on_error(error)
        if isinstance(error, TimeoutError) and not due.order.step.rules.local:
            return Finding(Found.UNKNOWN, Reason("call_timed_out", "no answer in time"))
        return _failure(due, error)
