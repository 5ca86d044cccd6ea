"""Calling handlers by the rules of the SDK, with a context that no database stands behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, assert_never

from pydantic import BaseModel

from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import Phase
from sagabus_messages import json_value
from sagabus_participant import Context, ExternalContext, LocalContext
from sagabus_participant.admission import Call
from sagabus_participant.errors import OutputError
from sagabus_participant.journal import Activation, Finding, Found, Reason
from sagabus_participant.orders import Order
from sagabus_participant.outcomes import Outcome, finding_of

__all__ = ["Due", "call_handler", "external_context", "local_context"]


@dataclass(frozen=True, slots=True)
class Due:
    """A call that admission has granted; `given` is the input of EXECUTE."""

    order: Order
    call: Call
    activation: Activation
    given: BaseModel | None = None


def local_context(due: Due, conn: Any) -> LocalContext:  # noqa: ANN401  (a team's own fake)
    """Return the context of a local step whose connection is `conn`."""
    return LocalContext(conn=conn, **_fields(due))


def external_context(due: Due, db: Any) -> ExternalContext:  # noqa: ANN401  (a team's own fake)
    """Return the context of an external step whose database is `db`."""
    return ExternalContext(db=db, **_fields(due))


async def call_handler(due: Due, ctx: Context, on_error: Callable[[Exception], None]) -> Finding:
    """Call the handler and return what was found.

    No exception of a handler gets further than here; `on_error` is told of each.
    """
    step = due.order.step
    try:
        async with asyncio.timeout(step.options.timeout_ms / 1000):
            outcome = await _handler(due, ctx)
        return finding_of(outcome, step.output_schema)
    except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
        on_error(error)
        if isinstance(error, TimeoutError) and not step.rules.local:
            return Finding(Found.UNKNOWN, Reason("call_timed_out", "no answer in time"))
        return _failure(due, error)


def _handler(due: Due, ctx: Context) -> Awaitable[Outcome]:
    handler: Any = due.order.step.handler
    answer: Awaitable[Outcome]
    match due.call:
        case Call.EXECUTE:
            answer = handler.execute(ctx, due.given)
        case Call.COMPENSATE:
            answer = handler.compensate(ctx)
        case Call.CANCEL:
            answer = handler.cancel(ctx)
        case Call.RESOLVE_EXECUTE | Call.RESOLVE_COMPENSATE:
            answer = handler.resolve(ctx)
        case _:
            assert_never(due.call)
    return answer


def _failure(due: Due, error: Exception) -> Finding:
    transient = isinstance(error, OSError | TimeoutError) or (
        isinstance(error, SagabusError) and error.retryable
    )
    name = type(error).__name__
    if transient:
        return Finding(Found.TRANSIENT, Reason("transient_error", name))
    if isinstance(error, OutputError):
        return Finding(Found.FAILED, Reason(error.code, error.detail))
    where = f"{name} in {due.order.step.name}.{due.call.value.lower()}"
    return Finding(Found.FAILED, Reason("handler_error", where))


def _fields(due: Due) -> dict[str, Any]:
    """Return the fields of a `Context`."""
    order, command = due.order, due.order.command
    undoing = due.call.about is Phase.COMPENSATE
    output = due.activation.execute.output
    return {
        "saga_id": command.saga_id,
        "tenant": command.tenant,
        "workflow": command.workflow,
        "business_key": command.business_key,
        "step": command.step,
        "activation": command.activation,
        "phase": command.phase,
        "target": command.target,
        "attempt": command.attempt,
        "idempotency_key": order.compensate_id if undoing else order.execute_id,
        "execute_key": order.execute_id,
        "expires_at_ms": command.expires_at_ms,
        "output": json_value(output) if output is not None else None,
        "recovery_operation_id": command.recovery_operation_id,
        "traceparent": order.meta.traceparent,
    }
