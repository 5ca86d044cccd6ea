"""One command against the locked journal: the bridge between the pure core and the transaction."""

from __future__ import annotations

from typing import assert_never

from sagabus_participant.admission import Answer, Call, Ignore, Run, admit
from sagabus_participant.dispatch import Due
from sagabus_participant.journal import Activation, Finding, Reply
from sagabus_participant.orders import Order, read_input
from sagabus_participant.session import Session
from sagabus_participant.settlement import Later, Settled, settle
from sagabus_participant.telemetry import EVENT_CONFLICT, EVENT_EXPIRED
from sagabus_runtime.logs import get_logger
from sagabus_runtime.telemetry import log_fields

__all__ = ["Handling"]


class Handling:
    """Admits and settles commands; keeps no state, everything is in the session."""

    def admit(self, session: Session, order: Order) -> Due | None:
        """Answer from the journal where that is possible, else return the call that is due.

        A payload that breaks its contract is answered before anything is called or begun.
        """
        now_ms = session.now_ms
        before = session.activation(order)
        decision = admit(order.step.rules, before, order.ask, session.past(order), now_ms)
        match decision:
            case Ignore():
                self.ignore(session, order)
            case Answer(reply, after):
                session.put(order, after)
                self._answer(session, order, reply)
            case Run(call, after):
                given = read_input(order) if call is Call.EXECUTE else None
                if not isinstance(given, Finding):
                    return Due(order, call, after, given)
                self.settle(session, Due(order, call, before), given)
            case _:
                assert_never(decision)
        return None

    @staticmethod
    def ignore(session: Session, order: Order) -> None:
        """Count a command that came too late to start, and do nothing."""
        session.count("expired", order.step.name, order.ask.phase)
        get_logger().debug(EVENT_EXPIRED, **_fields(order))

    def settle(self, session: Session, due: Due, finding: Finding) -> Later | None:
        """Record and answer what a call has found; `Later` where nothing is answered yet."""
        order = due.order
        activation = self._base(session, due)
        result = settle(order.step.rules, activation, order.ask, due.call, finding)
        session.put(order, result.activation)
        match result:
            case Settled(_, reply, conflict):
                if conflict:
                    self._report_conflict(session, order)
                self._answer(session, order, reply)
                return None
            case Later():
                session.count("retries", order.step.name)
                return result
            case _:
                assert_never(result)

    @staticmethod
    def _base(session: Session, due: Due) -> Activation:
        # What admission cleared (an old halt) counts for a local step in the same transaction; an
        # external one has saved it with its intent, and meanwhile somebody else may have settled.
        return due.activation if due.order.step.rules.local else session.activation(due.order)

    @staticmethod
    def _answer(session: Session, order: Order, reply: Reply) -> None:
        session.answer(order, reply)
        session.count("commands", order.step.name, order.ask.phase, reply.status)
        if session.now_ms >= order.ask.expires_at_ms:
            session.count("late", order.step.name)

    @staticmethod
    def _report_conflict(session: Session, order: Order) -> None:
        session.count("conflicts", order.step.name)
        get_logger().error(EVENT_CONFLICT, **_fields(order))


def _fields(order: Order) -> dict[str, object]:
    command = order.command
    return {
        **log_fields(command.saga_id, order.meta.traceparent),
        "step": command.step,
        "phase": command.phase.value,
        "attempt": command.attempt,
        "command_id": command.command_id,
    }
