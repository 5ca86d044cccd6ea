"""The effect journal and the remembered answers of a participant, in memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from sagabus_core import ids
from sagabus_core.vocabulary import Phase
from sagabus_messages import Result, Stamp, encode, source_of
from sagabus_participant.journal import Activation, EffectState, Reply
from sagabus_participant.orders import Order
from sagabus_testkit.memory.network import Network

__all__ = ["Journal"]

_NEW: Final = Activation()


@dataclass(frozen=True, slots=True)
class _Remembered:
    reply: Reply
    ordinal: int
    answered_at_ms: int


@dataclass(slots=True)
class Journal:
    """What the tables of the SDK hold, by the same rules; answers leave through the network."""

    participant: str
    network: Network
    _activations: dict[str, Activation] = field(default_factory=dict)
    _past: dict[str, _Remembered] = field(default_factory=dict)
    _intents: dict[tuple[str, str, Phase], Order] = field(default_factory=dict)

    def activation(self, order: Order) -> Activation:
        """Return both effects of the order's activation."""
        return self._activations.get(order.execute_id, _NEW)

    def past(self, order: Order) -> Reply | None:
        """Return the remembered answer to this very command."""
        found = self._past.get(order.ask.command_id)
        return found.reply if found else None

    def intent(self, saga_id: str, activation: str, about: Phase) -> Order | None:
        """Return the order under which something outside was called last."""
        return self._intents.get((saga_id, activation, about))

    def put(self, order: Order, activation: Activation) -> None:
        """Keep a new state of the order's activation."""
        self._activations[order.execute_id] = activation
        about = order.ask.about
        effect = activation.effect(about)
        mine = effect.intent_command_id == order.ask.command_id
        if mine and effect.state is EffectState.INTENT:
            command = order.command
            self._intents[command.saga_id, command.activation, about] = order

    def answer(self, order: Order, reply: Reply) -> None:
        """Answer the order; the same answer again is the same event again."""
        past = self._past.get(order.ask.command_id)
        now_ms = self.network.agenda.now_ms
        given = _Remembered(reply, past.ordinal + 1 if past else 1, now_ms)
        if past is not None and past.reply == reply:
            given = past
        elif not reply.final:
            self._past[order.ask.command_id] = given
        self._send(order, given)

    def _send(self, order: Order, given: _Remembered) -> None:
        command, reply = order.command, given.reply
        result = Result(
            saga_id=command.saga_id,
            tenant=command.tenant,
            workflow=command.workflow,
            business_key=command.business_key,
            definition_version=command.definition_version,
            definition_digest=command.definition_digest,
            step=command.step,
            activation=command.activation,
            phase=command.phase,
            target=command.target,
            attempt=command.attempt,
            effect_id=command.effect_id,
            command_id=command.command_id,
            event_id=ids.result_event_id(command.command_id, given.ordinal),
            status=reply.status,
            terminal_status=reply.terminal_status,
            reason_code=reply.reason.code if reply.reason else None,
            reason_detail=(reply.reason.detail or None) if reply.reason else None,
            output=reply.output,
            occurred_at_ms=given.answered_at_ms,
        )
        topic = self.network.topics.result(self.participant)
        stamp = Stamp(source_of(self.participant), given.answered_at_ms)
        self.network.send(encode(result, topic, stamp))
