"""One locked saga within a transaction: where it stands and what is to be written for it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, NamedTuple, assert_never

from opentelemetry.trace import Span

from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    ArmWakeup,
    Decision,
    IssueCommand,
    JournalFact,
    LifecycleChanged,
    Metric,
    Snapshot,
)
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import (
    Command,
    Lifecycle,
    OutboxRow,
    Signer,
    Stamp,
    Topics,
    WakeupRequest,
    encode,
    format_instant,
)
from sagabus_messages.payloads import write_payload
from sagabus_messages.strict_json import dump
from sagabus_orchestrator.signatures import SOURCE
from sagabus_runtime.names import FIELD_SAGA_ID
from sagabus_runtime.telemetry import Tracing, is_sampled

__all__ = ["NO_HEAD", "SPAN_BATCH", "SPAN_TRANSITION", "Entry", "Scene", "StoredFact"]

SPAN_BATCH: Final = "orchestrator.batch"
SPAN_TRANSITION: Final = "saga.transition"

NO_HEAD = bytes(32)
"""Head of the journal of a saga without facts."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What all decisions of a transaction share: topics, database time, spans, signing key."""

    topics: Topics
    now_ms: int
    tracing: Tracing = field(default_factory=Tracing)
    signer: Signer | None = None


class StoredFact(NamedTuple):  # a saga writes ten: a frozen class costs three times as much
    """A journal row: its bytes are final, `head` chains them to all facts before."""

    revision: int
    ordinal: int
    fact: bytes
    head: bytes


@dataclass(slots=True)
class Entry:
    """A saga that the transaction has locked or is about to create.

    `status_before`, `created_at`: as it was locked; None for one that this transaction creates.
    """

    scope: str
    definition: Definition
    snapshot: Snapshot
    head: bytes
    start_id: str
    traceparent: str | None = None
    is_new: bool = False
    changed: bool = False
    status_before: SagaStatus | None = None
    created_at: datetime | None = None
    archived: bool = False
    facts: list[StoredFact] = field(default_factory=list)
    rows: list[OutboxRow] = field(default_factory=list)
    issued: list[IssueCommand] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)

    @classmethod
    def new(cls, scope: str, definition: Definition, snapshot: Snapshot, start_id: str) -> Entry:
        """Return a saga that this transaction creates."""
        return cls(scope, definition, snapshot, NO_HEAD, start_id, is_new=True)

    @property
    def ended(self) -> bool:
        """Whether this transaction brings the saga to a terminal status."""
        return self.changed and self.snapshot.status.is_terminal and not self._was_terminal

    @property
    def needs_person(self) -> bool:
        """Whether this transaction brings the saga to where only a person can help."""
        manual = SagaStatus.MANUAL_INTERVENTION
        return self.changed and self.snapshot.status is manual and self.status_before is not manual

    @property
    def _was_terminal(self) -> bool:
        return self.status_before is not None and self.status_before.is_terminal

    def take(self, decision: Decision, scene: Scene, traceparent: str | None = None) -> None:
        """Make a decision this saga's present; its effects are collected for the writer.

        The later records of the transaction continue the trace of the message that caused them;
        without a message (an operation, the sweep) that of the saga's last change.
        """
        if decision.absorbed:
            return
        self.snapshot = decision.snapshot
        self.changed = True
        self._trace(traceparent or self.traceparent, decision, scene.tracing)
        # Facts first: the lifecycle event carries the journal's head after this decision.
        for effect in decision.effects:
            if isinstance(effect, JournalFact):
                self._append(effect)
        for effect in decision.effects:
            match effect:
                case IssueCommand():
                    self.issued.append(effect)
                    self.rows.append(self._command(effect, scene))
                case ArmWakeup():
                    self.rows.append(self._wakeup_request(effect, scene))
                case LifecycleChanged():
                    self.rows.append(self._lifecycle(effect, scene))
                case Metric():
                    self.metrics.append(effect)
                case JournalFact():
                    pass
                case _:
                    assert_never(effect)

    def end_spans(self) -> None:
        """Tell about the changes of this saga; call it once their transaction has committed."""
        for span in self.spans:
            span.end()

    def _trace(self, traceparent: str | None, decision: Decision, tracing: Tracing) -> None:
        if traceparent is not None and not (tracing.enabled and is_sampled(traceparent)):
            self.traceparent = traceparent  # the common case, which must cost nothing
            return
        attributes = _span_attributes(decision) if tracing.enabled else None
        self.traceparent, span = tracing.begin(SPAN_TRANSITION, traceparent, attributes)
        if span is not None:
            self.spans.append(span)

    def _append(self, fact: JournalFact) -> None:
        stored = dump(_fact_body(fact))
        self.head = hashlib.sha256(self.head + stored).digest()
        self.facts.append(StoredFact(self.snapshot.revision, fact.ordinal, stored, self.head))

    def _stamp(self, scene: Scene) -> Stamp:
        return Stamp(SOURCE, scene.now_ms, self.traceparent)

    def _command(self, effect: IssueCommand, scene: Scene) -> OutboxRow:
        saga = self.snapshot
        effect_id, command_id = effect.effect_id, effect.command_id
        body = Command(
            saga_id=saga.saga_id,
            tenant=saga.tenant,
            workflow=saga.workflow,
            business_key=saga.business_key,
            definition_version=saga.definition_version,
            definition_digest=saga.definition_digest,
            step=effect.step,
            activation=effect.activation,
            phase=effect.phase,
            target=effect.target,
            attempt=effect.attempt,
            effect_id=effect_id,
            command_id=command_id,
            recovery_operation_id=effect.recovery_operation_id,
            expires_at_ms=effect.expires_at_ms,
            payload=effect.payload,
        )
        row = encode(body, scene.topics.command(effect.participant), self._stamp(scene))
        return row if scene.signer is None else scene.signer.sign(row)

    def _wakeup_request(self, effect: ArmWakeup, scene: Scene) -> OutboxRow:
        body = WakeupRequest(
            saga_id=effect.saga_id, generation=effect.generation, at_ms=effect.at_ms
        )
        return encode(body, scene.topics.wakeup_request, self._stamp(scene))

    def _lifecycle(self, effect: LifecycleChanged, scene: Scene) -> OutboxRow:
        saga = self.snapshot
        body = Lifecycle(
            saga_id=saga.saga_id,
            tenant=saga.tenant,
            workflow=saga.workflow,
            business_key=saga.business_key,
            status=effect.status,
            start_id=self.start_id,
            definition_version=saga.definition_version,
            revision=effect.revision,
            reason_code=effect.reason_code,
            output=effect.output,
            journal_head=self.head.hex(),
            occurred_at_ms=effect.occurred_at_ms,
        )
        return encode(body, scene.topics.lifecycle, self._stamp(scene))


def _span_attributes(decision: Decision) -> dict[str, str | int]:
    saga = decision.snapshot
    attributes: dict[str, str | int] = {
        FIELD_SAGA_ID: saga.saga_id,
        "workflow": saga.workflow,
        "status": saga.status.value,
        "revision": saga.revision,
    }
    fact = next((effect for effect in decision.effects if isinstance(effect, JournalFact)), None)
    if fact is not None:
        attributes["trigger"] = str(fact.trigger.kind)
        if fact.subject is not None:
            attributes["subject"] = fact.subject
    return attributes


def _fact_body(fact: JournalFact) -> dict[str, object]:
    trigger, detail = fact.trigger, fact.detail
    body: dict[str, object] = {"kind": fact.kind}
    if fact.subject is not None:
        body["subject"] = fact.subject
    if fact.before is not None:
        body["from"] = fact.before
    if fact.after is not None:
        body["to"] = fact.after
    body["trigger_kind"] = trigger.kind
    body["trigger_id"] = fact.trigger_id
    if trigger.actor is not None:
        body["actor"] = trigger.actor
    if trigger.reason is not None:
        body["reason"] = trigger.reason
    body["at"] = format_instant(fact.at_ms)
    if detail:
        body["detail"] = dict(detail)
    if fact.output is not None:
        body["output"] = write_payload(fact.output)
    return body
