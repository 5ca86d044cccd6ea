"""A second, definitive answer to what was answered UNKNOWN: the outside called back."""

from __future__ import annotations

from sagabus_core.vocabulary import Phase
from sagabus_participant.admission import Call
from sagabus_participant.dispatch import Due
from sagabus_participant.errors import CallbackError
from sagabus_participant.handling import Handling
from sagabus_participant.journal import EffectState
from sagabus_participant.orders import read_order, unpack_record
from sagabus_participant.outcomes import Rejected, Succeeded, finding_of
from sagabus_participant.session import JOURNAL
from sagabus_participant.shell import Shell
from sagabus_store import Connection

__all__ = ["Callbacks"]


class Callbacks:
    """Reports outcomes that the outside sends by itself."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._handling = Handling()

    async def report(
        self, conn: Connection, idempotency_key: str, outcome: Succeeded | Rejected
    ) -> bool:
        """Settle the effect of this key and answer the command under which it was called last.

        Everything happens in the caller's open transaction on the participant's own database, so
        a team may write its own tables in the same breath. Returns whether an answer was written;
        False where the effect is settled already: a callback that comes twice, or too late.
        Raises `CallbackError` (`unknown_effect`) where nothing was ever called under this key.
        """
        row = await conn.fetchrow(JOURNAL["find_intent"], idempotency_key)
        if row is None or (row["state"] == EffectState.NONE and row["intent_record"] is None):
            raise CallbackError("unknown_effect", f"nothing was called under {idempotency_key}")
        if EffectState(row["state"]).is_settled or row["intent_record"] is None:
            return False
        record = unpack_record(row["intent_record"])
        order = read_order(record, self._shell.participant, self._shell.topics)
        undoing = order.ask.about is Phase.COMPENSATE
        if undoing and isinstance(outcome, Rejected):
            raise CallbackError("undo_rejected", "an undo is never refused: it is tried again")
        session = self._shell.session(conn)
        await session.lock_known([order])
        activation = session.activation(order)
        if activation.effect(order.ask.about).state.is_settled:
            return False
        call = Call.COMPENSATE if undoing else Call.EXECUTE
        finding = finding_of(outcome, order.step.output_schema)
        self._handling.settle(session, Due(order, call, activation), finding)
        await session.flush()
        self._shell.meters.add(session.tally)
        return True
