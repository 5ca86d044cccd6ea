"""Dispatch: which method of a handler a call is, its context, and what its answer or failure means.

Nothing here knows of a connection or of telemetry: the service (`calls`) and the test kit, which
runs handlers in memory, call handlers by these same lines.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
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
from sagabus_participant.step import Context, LocalContext

__all__ = ["Due", "answer", "answer_many", "context_fields", "failure"]

HANDLER_ERROR: Final = "handler_error"


@dataclass(frozen=True, slots=True)
class Due:
    """A call that admission has granted; `given` is the input of EXECUTE."""

    order: Order
    call: Call
    activation: Activation
    given: BaseModel | None = None


async def answer(due: Due, ctx: Context) -> Finding:
    """Call the handler, cancelled after the step's time-out, and return what it has found.

    Raises whatever the handler raises, `TimeoutError`, and `OutputError`: ask `failure` then.
    """
    step = due.order.step
    async with asyncio.timeout(step.options.timeout_ms / 1000):
        outcome = await _handler(due, ctx)
    return finding_of(outcome, step.output_schema)


async def answer_many(dues: Sequence[Due], contexts: Sequence[LocalContext]) -> list[Finding]:
    """Call `execute_many` of the step that all of them are for; raises as `answer` does."""
    step = dues[0].order.step
    handler: Any = step.handler
    batch = [(ctx, due.given) for ctx, due in zip(contexts, dues, strict=True)]
    async with asyncio.timeout(step.options.timeout_ms / 1000):
        outcomes: Sequence[Outcome] = await handler.execute_many(batch)
    if len(outcomes) != len(batch):
        raise OutputError(
            "output_invalid",
            f"{step.name}.execute_many gave {len(outcomes)} answers to {len(batch)} orders",
        )
    return [finding_of(outcome, step.output_schema) for outcome in outcomes]


def failure(due: Due, error: Exception) -> Finding:
    """Return what is found where `answer` raised: TRANSIENT, FAILED, or UNKNOWN after a time-out.

    The reason names the type alone: the text of a foreign exception may hold what no message
    should carry.
    """
    step, name = due.order.step, type(error).__name__
    if isinstance(error, TimeoutError) and not step.rules.local:
        detail = f"no answer in {step.options.timeout_ms} ms"
        return Finding(Found.UNKNOWN, Reason("call_timed_out", detail))
    if isinstance(error, OSError | TimeoutError) or (
        isinstance(error, SagabusError) and error.retryable
    ):
        return Finding(Found.TRANSIENT, Reason("transient_error", name))
    if isinstance(error, OutputError):
        return Finding(Found.FAILED, Reason(error.code, error.detail))
    where = f"{name} in {step.name}.{due.call.value.lower()}"
    return Finding(Found.FAILED, Reason(HANDLER_ERROR, where))


def context_fields(due: Due, traceparent: str | None) -> dict[str, Any]:
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
        "traceparent": traceparent,
    }


def _output(activation: Activation) -> JsonValue:
    output = activation.execute.output
    return json_value(output) if output is not None else None


def _handler(due: Due, ctx: Context) -> Awaitable[Outcome]:
    handler: Any = due.order.step.handler
    answered: Awaitable[Outcome]
    match due.call:
        case Call.EXECUTE:
            answered = handler.execute(ctx, due.given)
        case Call.COMPENSATE:
            answered = handler.compensate(ctx)
        case Call.CANCEL:
            answered = handler.cancel(ctx)
        case Call.RESOLVE_EXECUTE | Call.RESOLVE_COMPENSATE:
            answered = handler.resolve(ctx)
        case _:
            assert_never(due.call)
    return answered
