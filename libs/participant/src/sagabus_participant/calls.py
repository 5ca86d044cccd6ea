"""Calling a handler: context in, finding out; no exception of a handler gets further than here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Any, Final, assert_never

from pydantic import BaseModel

from sagabus_core.canonical import JsonValue
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import Phase
from sagabus_messages import json_value
from sagabus_participant.admission import Call
from sagabus_participant.errors import OutputError
from sagabus_participant.journal import Activation, Finding, Found, Reason
from sagabus_participant.orders import Order
from sagabus_participant.outcomes import Outcome, finding_of
from sagabus_participant.session import JOURNAL
from sagabus_participant.step import Context, ExternalContext, LocalContext
from sagabus_participant.telemetry import EVENT_HANDLER_FAILED, EVENT_HANDLER_TRANSIENT
from sagabus_runtime.logs import get_logger
from sagabus_store import Connection, Database, StoreUnavailable, translated

__all__ = ["Due", "call_external", "call_local"]

HANDLER_ERROR: Final = "handler_error"


@dataclass(frozen=True, slots=True)
class Due:
    """A call that admission has granted; `given` is the input of EXECUTE."""

    order: Order
    call: Call
    activation: Activation
    given: BaseModel | None = None


async def call_local(conn: Connection, due: Due) -> Finding:
    """Call a local handler inside the open savepoint.

    Afterwards the savepoint is open again, and holds nothing unless the finding is SUCCEEDED.
    Raises `StoreUnavailable` only where the connection itself is lost.
    """
    ctx = LocalContext(conn=conn, **_context_fields(due))
    finding = await _guarded(conn, due, ctx)
    if finding.kind is Found.SUCCEEDED:
        finding = await _kept(conn, due, finding)
    if finding.kind is not Found.SUCCEEDED:
        with translated():
            await conn.execute(JOURNAL["undo_savepoint"])
    return finding


async def _guarded(conn: Connection, due: Due, ctx: Context) -> Finding:
    try:
        with translated():
            async with asyncio.timeout(due.order.step.options.timeout_ms / 1000):
                outcome = await _handler(due, ctx)
        return finding_of(outcome, due.order.step.output_schema)
    except Exception as error:  # this is the supervised edge of foreign code
        if isinstance(error, StoreUnavailable) and conn.is_closed():
            raise
        return _failure(due, error)


async def _kept(conn: Connection, due: Due, finding: Finding) -> Finding:
    try:
        with translated():
            await conn.execute(JOURNAL["next_savepoint"])
    except StoreUnavailable as error:
        # A handler that swallowed a database error leaves an aborted transaction behind.
        if conn.is_closed():
            raise
        return _failure(due, RuntimeError(error.code))
    return finding


async def call_external(db: Database, due: Due) -> Finding:
    """Call an external handler; it is cancelled after the step's own time-out.

    A call in flight may outlive its command: a late answer is still a fact.
    """
    ctx = ExternalContext(db=db, **_context_fields(due))
    limit_ms = due.order.step.options.timeout_ms
    try:
        async with asyncio.timeout(limit_ms / 1000):
            outcome = await _handler(due, ctx)
        return finding_of(outcome, due.order.step.output_schema)
    except TimeoutError as error:
        get_logger().warning(EVENT_HANDLER_FAILED, **_where(due, error))
        return Finding(Found.UNKNOWN, Reason("call_timed_out", f"no answer in {limit_ms} ms"))
    except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
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


def _context_fields(due: Due) -> dict[str, Any]:
    """Return the fields of a `Context`."""
    order = due.order
    command = order.command
    undoing = due.call.about is Phase.COMPENSATE
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
        "output": _output(due.activation),
        "recovery_operation_id": command.recovery_operation_id,
        "traceparent": order.meta.traceparent,
    }


def _output(activation: Activation) -> JsonValue:
    output = activation.execute.output
    return json_value(output) if output is not None else None


def _failure(due: Due, error: Exception) -> Finding:
    where = _where(due, error)
    transient = isinstance(error, OSError | TimeoutError) or (
        isinstance(error, SagabusError) and error.retryable
    )
    if transient:
        get_logger().info(EVENT_HANDLER_TRANSIENT, **where)
        return Finding(Found.TRANSIENT, Reason("transient_error", type(error).__name__))
    get_logger().error(EVENT_HANDLER_FAILED, exc_info=error, **where)
    if isinstance(error, OutputError):
        return Finding(Found.FAILED, Reason(error.code, error.detail))
    # The type alone: the text of a foreign exception may hold what no message should carry.
    return Finding(
        Found.FAILED,
        Reason(
            HANDLER_ERROR,
            f"{type(error).__name__} in {due.order.step.name}.{due.call.value.lower()}",
        ),
    )


def _where(due: Due, error: Exception) -> dict[str, object]:
    command = due.order.command
    return {
        "saga_id": command.saga_id,
        "step": command.step,
        "attempt": command.attempt,
        "call": due.call.value,
        "error": repr(error)[:300],
    }
