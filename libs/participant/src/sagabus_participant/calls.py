"""Calling a handler: context in, finding out; no exception of a handler gets further than here."""

from __future__ import annotations

from collections.abc import Sequence

from sagabus_participant.dispatch import Due, answer, answer_many, failure
from sagabus_participant.journal import Finding, Found
from sagabus_participant.session import JOURNAL
from sagabus_participant.step import ExternalContext, LocalContext
from sagabus_participant.telemetry import (
    EVENT_BATCH_FAILED,
    EVENT_HANDLER_FAILED,
    EVENT_HANDLER_TRANSIENT,
)
from sagabus_participant.watch import Watch
from sagabus_runtime.logs import get_logger
from sagabus_store import Connection, Database, StoreUnavailable, translate, translated

__all__ = ["Calls"]


class Calls:
    """Calls handlers in a span of the message's trace, with their names in every log line."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch

    async def attempt(self, conn: Connection, dues: Sequence[Due]) -> Sequence[Finding] | None:
        """Call a local handler in a savepoint that others share; None where it raised anything.

        Several commands are one call of their step's `execute_many`. Whatever is no success is to
        be undone and called again by `call`, which tells about it. Raises `StoreUnavailable` only
        where the connection itself is lost.
        """
        if len(dues) > 1:
            return await self._attempt_many(conn, dues)
        if not dues:
            return ()
        found = await self._attempt_one(conn, dues[0])
        return None if found is None else (found,)

    async def _attempt_one(self, conn: Connection, due: Due) -> Finding | None:
        with self._watch.call(due) as context:
            try:
                return await answer(due, LocalContext(conn=conn, **context))
            except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
                _raise_if_lost(conn, _of_store(error))
                return None

    async def _attempt_many(self, conn: Connection, dues: Sequence[Due]) -> list[Finding] | None:
        with self._watch.calls(dues) as contexts:
            try:
                return await answer_many(dues, [LocalContext(conn=conn, **c) for c in contexts])
            except Exception as foreign:  # noqa: BLE001  # this is the supervised edge of foreign code
                error = _of_store(foreign)
                _raise_if_lost(conn, error)
                # The repetition one by one may well succeed, and would hide that this did not.
                get_logger().warning(EVENT_BATCH_FAILED, error=repr(error)[:300])
                return None

    async def call(self, conn: Connection, due: Due) -> Finding:
        """Call a local handler inside the open savepoint, which is its own.

        Afterwards the savepoint is open again, and holds nothing unless the finding is SUCCEEDED.
        Raises `StoreUnavailable` only where the connection itself is lost.
        """
        with self._watch.call(due) as context:
            try:
                finding = await answer(due, LocalContext(conn=conn, **context))
            except Exception as foreign:  # noqa: BLE001  # this is the supervised edge of foreign code
                error = _of_store(foreign)
                _raise_if_lost(conn, error)
                finding = _failed(due, error)
            if finding.kind is Found.SUCCEEDED and not await self.keep(conn):
                finding = _failed(due, RuntimeError("the handler swallowed a database error"))
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
                return await answer(due, ExternalContext(db=db, **context))
            except Exception as error:  # noqa: BLE001  # this is the supervised edge of foreign code
                return _failed(due, error)


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


def _failed(due: Due, error: Exception) -> Finding:
    """Return what a failure means, and log it unless the counter of retries tells enough."""
    finding = failure(due, error)
    # Saga, step and attempt are bound to every line.
    where = {"call": due.call.value, "error": repr(error)[:300]}
    match finding.kind:
        case Found.TRANSIENT:
            # A line per try of every stuck command would drown the rest.
            get_logger().debug(EVENT_HANDLER_TRANSIENT, **where)
        case Found.UNKNOWN:
            get_logger().warning(EVENT_HANDLER_FAILED, **where)
        case _:
            get_logger().error(EVENT_HANDLER_FAILED, exc_info=error, **where)
    return finding
