"""The orchestrator in memory: the real engine behind the real codec, tables replaced by dicts."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Final

from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    ArmWakeup,
    Decision,
    Effect,
    Event,
    IssueCommand,
    JournalFact,
    LifecycleChanged,
    ManagementEvent,
    Metric,
    Resume,
    Snapshot,
    StartRequest,
    WakeupDelivered,
    decide,
    start,
)
from sagabus_core.engine.events import ResultReceived
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Control
from sagabus_messages import (
    Command,
    Record,
    Result,
    Stamp,
    Wakeup,
    decode,
    encode,
    source_of,
    verify_identity,
)
from sagabus_testkit.memory.agenda import Appointment
from sagabus_testkit.memory.network import Network

__all__ = ["MemoryOrchestrator", "SagaState"]

_SOURCE: Final = source_of("orchestrator")


@dataclass(slots=True)
class SagaState:
    """One saga: where it stands, all that is written about it, what it waits for."""

    definition: Definition
    snapshot: Snapshot
    facts: list[JournalFact] = field(default_factory=list)
    lifecycle: list[LifecycleChanged] = field(default_factory=list)
    deferred: list[ResultReceived] = field(default_factory=list)
    wakeup: Appointment | None = None

    @property
    def output(self) -> Payload | None:
        """What the completed saga reported."""
        return self.lifecycle[-1].output if self.lifecycle else None


class MemoryOrchestrator:
    """Decides sagas; timer and inbox included."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._agenda = network.agenda
        self._claimed: set[tuple[str, str]] = set()
        self.sagas: dict[str, SagaState] = {}
        network.subscribe(network.topics.wakeup, self._receive)

    def listen_to(self, participant: str) -> None:
        """Read the answers of a participant."""
        self._network.subscribe(self._network.topics.result(participant), self._receive)

    def start(self, definition: Definition, request: StartRequest) -> SagaState:
        """Start a saga under a new key. Raises what the engine refuses."""
        decision = start(definition, request, self._agenda.now_ms)
        saga = SagaState(definition, decision.snapshot)
        self.sagas[decision.snapshot.saga_id] = saga
        self._take(saga, decision)
        return saga

    def operate(self, saga: SagaState, event: ManagementEvent) -> None:
        """Apply a management operation. Raises what the engine refuses."""
        if isinstance(event, Resume):
            for result in saga.deferred:
                self._decide(saga, result)
            saga.deferred.clear()
        self._decide(saga, event)

    async def _receive(self, record: Record) -> None:
        envelope = decode(record, self._network.topics)
        body, meta = envelope.body, envelope.meta
        saga = self.sagas[meta.saga_id]
        if (meta.source, meta.ce_id) in self._claimed:
            self._network.story.tell(meta.saga_id, "·", f"a repeated {body.kind} is absorbed")
            return
        self._claimed.add((meta.source, meta.ce_id))
        match body:
            case Result():
                verify_identity(body)
                self._take_result(saga, _received(body))
            case Wakeup():
                self._decide(saga, WakeupDelivered(meta.ce_id, body.generation))
            case _:
                pass  # no other topic is subscribed

    def _take_result(self, saga: SagaState, event: ResultReceived) -> None:
        if saga.snapshot.control is Control.PAUSED and not saga.snapshot.status.is_terminal:
            self._network.story.tell(saga.snapshot.saga_id, "‖", "an answer waits for the resume")
            saga.deferred.append(event)
            return
        self._decide(saga, event)

    def _decide(self, saga: SagaState, event: Event) -> None:
        self._take(saga, decide(saga.definition, saga.snapshot, event, self._agenda.now_ms))

    def _take(self, saga: SagaState, decision: Decision) -> None:
        saga.snapshot = decision.snapshot
        facts = [effect for effect in decision.effects if isinstance(effect, JournalFact)]
        saga.facts += facts
        self._network.story.tell_facts(saga.snapshot.saga_id, facts)
        for effect in decision.effects:
            self._carry_out(saga, effect)

    def _carry_out(self, saga: SagaState, effect: Effect) -> None:
        match effect:
            case IssueCommand():
                self._send_command(saga, effect)
            case ArmWakeup():
                self._arm(saga, effect)
            case LifecycleChanged():
                saga.lifecycle.append(effect)
            case JournalFact() | Metric():
                pass

    def _send_command(self, saga: SagaState, effect: IssueCommand) -> None:
        snapshot = saga.snapshot
        body = Command(
            saga_id=snapshot.saga_id,
            tenant=snapshot.tenant,
            workflow=snapshot.workflow,
            business_key=snapshot.business_key,
            definition_version=snapshot.definition_version,
            definition_digest=snapshot.definition_digest,
            step=effect.step,
            activation=effect.activation,
            phase=effect.phase,
            target=effect.target,
            attempt=effect.attempt,
            effect_id=effect.effect_id,
            command_id=effect.command_id,
            recovery_operation_id=effect.recovery_operation_id,
            expires_at_ms=effect.expires_at_ms,
            payload=effect.payload,
        )
        topic = self._network.topics.command(effect.participant)
        self._network.send(encode(body, topic, Stamp(_SOURCE, self._agenda.now_ms)))

    def _arm(self, saga: SagaState, effect: ArmWakeup) -> None:
        """Be the timer service: one wake-up per saga, a newer generation replaces the older."""
        if saga.wakeup is not None:
            saga.wakeup.cancelled = True
            saga.wakeup = None
        if effect.at_ms is not None:
            fire = partial(self._fire, saga.snapshot.saga_id, effect.generation, effect.at_ms)
            saga.wakeup = self._agenda.at(effect.at_ms, fire)

    async def _fire(self, saga_id: str, generation: int, at_ms: int) -> None:
        now_ms = self._agenda.now_ms
        body = Wakeup(saga_id=saga_id, generation=generation, at_ms=at_ms, fired_at_ms=now_ms)
        stamp = Stamp(source_of("timer"), now_ms)
        self._network.send(encode(body, self._network.topics.wakeup, stamp))


def _received(body: Result) -> ResultReceived:
    return ResultReceived(
        event_id=body.event_id,
        activation=body.activation,
        phase=body.phase,
        attempt=body.attempt,
        status=body.status,
        target=body.target,
        terminal_status=body.terminal_status,
        reason_code=body.reason_code,
        reason_detail=body.reason_detail,
        output=body.output,
    )
