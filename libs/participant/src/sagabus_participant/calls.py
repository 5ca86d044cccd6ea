"""Calling a handler: context in, finding out; no exception of a handler gets further than here."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final, assert_never

from sagabus_core.errors import SagabusError
from sagabus_participant.admission import Call
from sagabus_participant.errors import OutputError
from sagabus_participant.journal import Finding, Found, Reason
from sagabus_participant.outcomes import Outcome, finding_of
from sagabus_participant.session import JOURNAL
from sagabus_participant.step import Context, ExternalContext, LocalContext
from sagabus_participant.telemetry import EVENT_HANDLER_FAILED, EVENT_HANDLER_TRANSIENT
from sagabus_participant.watch import Due, Watch
from sagabus_runtime.logs import get_logger
from sagabus_store import Connection, Database, StoreUnavailable, translate, translated

__all__ = ["Calls"]

HANDLER_ERROR: Final = "handler_error"


class Calls:
    """Calls handlers in a span of the message's trace, with their names in every log line."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def attempt(self, conn: Connection, due: Due) -> Finding | None:
        """Call a local handler in a savepoint that others share; None where it raised anything.

        Whatever is no success is to be undone and called again by `call`, which tells about it.
        Raises `StoreUnavailable` only where the connection itself is lost.
        """
        with self._watch.call(due) as context:
            try:
                return await self._answer(due, LocalContext(conn=conn, **context))
            except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
                _raise_if_lost(conn, _of_store(error))
                return None

    async def call(self, conn: Connection, due: Due) -> Finding:
        """Call a local handler inside the open savepoint, which is its own.

        Afterwards the savepoint is open again, and holds nothing unless the finding is SUCCEEDED.
        Raises `StoreUnavailable` only where the connection itself is lost.
        """
        with self._watch.call(due) as context:
            try:
                finding = await self._answer(due, LocalContext(conn=conn, **context))
            except Exception as foreign:  # noqa: BLE001  # this is the supervised edge of foreign code
                error = _of_store(foreign)
                _raise_if_lost(conn, error)
                finding = _failure(due, error)
            if finding.kind is Found.SUCCEEDED and not await self.keep(conn):
                finding = _failure(due, RuntimeError("the handler swallowed a database error"))
        if finding.kind is not Found.SUCCEEDED:
            await self.undo(conn)
        return finding

    @staticmethod
    async def keep(conn: Connection) -> bool:
        """Keep what was done since the savepoint and open the next; False where that cannot be.

        A handler that swallowed a database error leaves an aborted transaction behind.
        """
        try:
            with translated():
                await conn.execute(JOURNAL["next_savepoint"])
        except StoreUnavailable as error:
            _raise_if_lost(conn, error)
            return False
        return True

    @staticmethod
    async def undo(conn: Connection) -> None:
        """Take back what was done since the savepoint, and leave it open."""
        with translated():
            await conn.execute(JOURNAL["undo_savepoint"])

    async def call_external(self, db: Database, due: Due) -> Finding:
        """Call an external handler; it is cancelled after the step's own time-out.

        A call in flight may outlive its command: a late answer is still a fact.
        """
        with self._watch.call(due) as context:
            try:
                return await self._answer(due, ExternalContext(db=db, **context))
            except TimeoutError as error:
                limit_ms = due.order.step.options.timeout_ms
                get_logger().warning(EVENT_HANDLER_FAILED, **_where(due, error))
                return Finding(
                    Found.UNKNOWN, Reason("call_timed_out", f"no answer in {limit_ms} ms")
                )
            except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
                return _failure(due, error)

    @staticmethod
    async def _answer(due: Due, ctx: Context) -> Finding:
        step = due.order.step
        async with asyncio.timeout(step.options.timeout_ms / 1000):
            outcome = await _handler(due, ctx)
        return finding_of(outcome, step.output_schema)


def _of_store(error: Exception) -> Exception:
    """Return what an error of the driver, or a time-out, means; any other error as it is."""
    found = translate(error)
    if found is None:
        return error
    found.__cause__ = error
    return found


def _raise_if_lost(conn: Connection, error: Exception) -> None:
    if isinstance(error, StoreUnavailable) and conn.is_closed():
        raise error


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
    where = _where(due, error)
    transient = isinstance(error, OSError | TimeoutError) or (
        isinstance(error, SagabusError) and error.retryable
    )
    if transient:
        # The counter of retries tells; a line per try of every stuck command would drown the rest.
        get_logger().debug(EVENT_HANDLER_TRANSIENT, **where)
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
    """Return what the bound fields (saga, step, attempt) do not say."""
    return {"call": due.call.value, "error": repr(error)[:300]}
