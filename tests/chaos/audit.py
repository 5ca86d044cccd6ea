"""What the journals say, read twice: by today's engine, and by plain rules that know no engine."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sagabus_core.definitions import Definition, StepKind
from sagabus_core.engine import (
    Event,
    FactKind,
    ForwardState,
    ResultReceived,
    Snapshot,
    StartRequest,
    Sweep,
    TriggerKind,
    WakeupDelivered,
    decide,
    from_json,
    start,
)
from sagabus_core.engine.invariants import repeat_violations, violations
from sagabus_core.errors import SagabusError
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus, TerminalStatus
from sagabus_messages import Topics, parse_instant, parse_strict
from sagabus_messages.payloads import read_body, read_payload
from sagabus_orchestrator.entry import NO_HEAD, Entry, Scene

__all__ = ["SagaRecord", "StoredFact", "audit", "contradictions", "replay"]


@dataclass(frozen=True, slots=True)
class StoredFact:
    """One row of a journal."""

    revision: int
    fact: bytes
    head: bytes

    @property
    def body(self) -> dict[str, Any]:
        """The fact as it can be read."""
        return read_body(self.fact, "output")[0]

    @property
    def at_ms(self) -> int:
        """When it was decided, by the database clock."""
        return parse_instant(self.body["at"])


@dataclass(frozen=True, slots=True)
class SagaRecord:
    """Everything that the orchestrator's tables hold of one saga, and what it was started with."""

    tenant: str
    business_key: str
    payload: Payload | None
    snapshot: bytes
    head: bytes
    facts: Sequence[StoredFact]


def audit(record: SagaRecord, definition: Definition) -> Iterator[str]:
    """Name everything in a journal that must not be."""
    for problem in itertools.chain(
        _chain(record.facts), replay(record, definition), contradictions(record, definition)
    ):
        yield f"{record.business_key}: {problem}"


def _chain(facts: Iterable[StoredFact]) -> Iterator[str]:
    head = NO_HEAD
    for number, fact in enumerate(facts):
        head = hashlib.sha256(head + fact.fact).digest()
        if head != fact.head:
            yield f"the chain of heads is broken at fact {number}"
            return


def replay(record: SagaRecord, definition: Definition) -> Iterator[str]:
    """Decide everything again: same facts byte for byte, same snapshot, no broken invariant."""
    entry: Entry | None = None
    for revision, group in itertools.groupby(record.facts, key=lambda fact: fact.revision):
        stored = list(group)
        try:
            entry, broken = _again(record, definition, entry, stored[0])
        except (SagabusError, LookupError, TypeError, ValueError) as error:
            yield f"revision {revision} cannot be decided again: {error!r}"
            return
        yield from (f"revision {revision}: {problem}" for problem in broken)
        if entry.head != stored[-1].head or entry.snapshot.revision != revision:
            yield f"revision {revision} is not what the engine decides"
            return
    if entry is None or entry.head != record.head:
        yield "the saga's head is not that of its journal"
    elif entry.snapshot != from_json(_object(record.snapshot)):
        yield "the snapshot does not follow from the journal"


def _again(
    record: SagaRecord, definition: Definition, entry: Entry | None, first: StoredFact
) -> tuple[Entry, list[str]]:
    """Apply one more decision; return where the saga stands then, and what is wrong with it."""
    scene = Scene(Topics(""), first.at_ms)
    if entry is None:
        request = StartRequest(
            record.tenant, record.business_key, first.body["trigger_id"], None, record.payload
        )
        decision = start(definition, request, first.at_ms)
        entry = Entry("", definition, decision.snapshot, NO_HEAD, request.start_id)
        entry.take(decision, scene)
        return entry, violations(definition, None, decision, first.at_ms)
    event, before = event_of(first), entry.snapshot
    decision = decide(definition, before, event, first.at_ms)
    broken = violations(definition, before, decision, first.at_ms)
    broken += repeat_violations(definition, decision.snapshot, event, first.at_ms)
    entry.take(decision, scene)
    return entry, broken


def event_of(fact: StoredFact) -> Event:
    """Return the event that a decision's first fact tells of. Raises `SagabusError` for others."""
    body, text = read_body(fact.fact, "output")
    trigger = str(body["trigger_id"])
    match body["trigger_kind"]:
        case TriggerKind.RESULT:
            return _result(body, trigger, text)
        case TriggerKind.WAKEUP:
            return WakeupDelivered(trigger, int(str(body["from"])))
        case TriggerKind.SWEEP:
            return Sweep(trigger)
        case other:
            raise SagabusError("unexpected_trigger", f"nobody asked for an event of kind {other}")


def _result(body: Mapping[str, Any], event_id: str, text: bytes | None) -> ResultReceived:
    told = body["detail"]
    target, terminal = told.get("target"), told.get("terminal_status")
    return ResultReceived(
        event_id,
        body["subject"].partition(":")[2],
        Phase(told["phase"]),
        told["attempt"],
        ResultStatus(told["status"]),
        target=Phase(target) if target else None,
        terminal_status=TerminalStatus(terminal) if terminal else None,
        reason_code=told.get("reason_code"),
        reason_detail=told.get("reason_detail"),
        output=read_payload(body["output"], text) if "output" in body else None,
    )


@dataclass(slots=True)
class _Told:
    """What a journal says of one activation, in plain words."""

    forward: set[str] = field(default_factory=set)
    undone: bool = False
    first_undo: int | None = None
    succeeded: int | None = None


_DONE: Final = "done"
_NOT_DONE: Final = "not done"
_MEANS: Final = {
    (Phase.EXECUTE, ResultStatus.SUCCEEDED, None): _DONE,
    (Phase.EXECUTE, ResultStatus.REJECTED, None): _NOT_DONE,
    (Phase.CANCEL, ResultStatus.CANCEL_CONFIRMED, None): _NOT_DONE,
    (Phase.CANCEL, ResultStatus.ALREADY_TERMINAL, TerminalStatus.SUCCEEDED): _DONE,
    (Phase.CANCEL, ResultStatus.ALREADY_TERMINAL, TerminalStatus.REJECTED): _NOT_DONE,
    (Phase.RESOLVE, ResultStatus.SUCCEEDED, None): _DONE,
    (Phase.RESOLVE, ResultStatus.REJECTED, None): _NOT_DONE,
}


def contradictions(record: SagaRecord, definition: Definition) -> Iterator[str]:
    """Hold facts against each other: one truth per step, undone in reverse, and the ending."""
    bodies = [fact.body for fact in record.facts]
    told = _read(bodies)
    for path, step in told.items():
        retriable = definition.nodes[path].step.kind is StepKind.RETRIABLE
        if len(step.forward) > 1 and not retriable:
            yield f"{path} is both done and not done"
    undone = sorted((s.first_undo, p) for p, s in told.items() if s.first_undo is not None)
    done = sorted(((s.succeeded or 0, p) for p, s in told.items()), reverse=True)
    if [p for _, p in undone] != [p for _, p in done if told[p].first_undo is not None]:
        yield f"undone in the order {[p for _, p in undone]}, which is not that of success reversed"
    status = from_json(_object(record.snapshot)).status
    if status is SagaStatus.COMPLETED:
        missing = [p for p, s in told.items() if _DONE not in s.forward]
        if missing or told.keys() != definition.nodes.keys():
            yield f"COMPLETED, but nothing says that {missing or 'every step'} succeeded"
    if status is SagaStatus.COMPENSATED:
        for path, step in told.items():
            if _DONE in step.forward and not step.undone:
                yield f"COMPENSATED, but {path} is done and nothing undid it"


def _read(bodies: Sequence[Mapping[str, Any]]) -> dict[str, _Told]:
    told: dict[str, _Told] = defaultdict(_Told)
    for number, body in enumerate(bodies):
        path = str(body.get("subject")).rpartition(":")[2]
        detail = body.get("detail", {})
        undoing = Phase.COMPENSATE in (detail.get("phase"), detail.get("target"))
        if body["kind"] == FactKind.COMMAND and undoing and told[path].first_undo is None:
            told[path].first_undo = number
        if body["kind"] == FactKind.ANSWER and undoing:
            told[path].undone |= detail["status"] == ResultStatus.SUCCEEDED
        elif body["kind"] == FactKind.ANSWER:
            key = (detail["phase"], detail["status"], detail.get("terminal_status"))
            told[path].forward |= {_MEANS[key]} if key in _MEANS else set()
        if body["kind"] == FactKind.STATE and body["to"] == ForwardState.SUCCEEDED:
            told[path].succeeded = number
    return dict(told)


def snapshot_of(record: SagaRecord) -> Snapshot:
    """Return where the saga stands."""
    return from_json(_object(record.snapshot))


def _object(stored: bytes) -> dict[str, Any]:
    value = parse_strict(stored)
    if not isinstance(value, dict):
        raise TypeError("a snapshot is an object")
    return value
