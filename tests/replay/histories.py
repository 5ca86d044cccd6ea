"""Recorded histories: a document, then every event with what the engine decided on that day.

Written once by `python tests/replay/histories.py`, which adds what is missing and never rewrites
what is there: a history that does not replay any more is a broken promise to running sagas.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from sagabus_core.engine import (
    AttestedBranch,
    AttestedOutcome,
    AttestedUndo,
    Cancel,
    Event,
    ForwardState,
    Operation,
    Pause,
    RecordOutcome,
    ResultReceived,
    Resume,
    Retry,
    StartRequest,
    Sweep,
    WakeupDelivered,
    decide,
    start,
    to_json,
)
from sagabus_core.payload import Payload
from sagabus_core.testing import (
    SagaDriver,
    choice,
    compensatable,
    document,
    parallel,
    pivot,
    retriable,
)
from sagabus_core.vocabulary import Phase, ResultStatus, TerminalStatus

FOLDER = Path(__file__).parent / "histories"
EVENTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        *(ResultReceived, WakeupDelivered, Sweep, Pause, Resume, Cancel, Retry, RecordOutcome),
        *(AttestedOutcome, AttestedUndo, AttestedBranch, Operation, StartRequest),
    )
}
WORDS: dict[str, Callable[[str], Any]] = {
    "phase": Phase,
    "target": Phase,
    "status": ResultStatus,
    "terminal_status": TerminalStatus,
    "outcome": ForwardState,
}


def to_plain(value: Any) -> Any:
    if isinstance(value, Payload):
        return {"payload": [value.content_type, value.schema_id, value.body.decode()]}
    if type(value).__name__ in EVENTS:
        named = {f.name: to_plain(getattr(value, f.name)) for f in fields(value)}
        kept = {name: each for name, each in named.items() if each is not None}
        return {"type": type(value).__name__, **kept}
    return value


def from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "payload" in value and "type" not in value:
        content_type, schema_id, text = value["payload"]
        return Payload(content_type, schema_id, text.encode())
    given = {name: from_plain(each) for name, each in value.items() if name != "type"}
    for name, word in WORDS.items():
        if name in given:
            given[name] = word(given[name])
    return EVENTS[value["type"]](**given)


class Recorder(SagaDriver):
    """A driver that keeps what happened."""

    def __init__(self, doc: dict[str, Any], **options: Any) -> None:
        super().__init__(doc, **options)
        deadline = options.get("deadline_ms")
        deadline_at = None if deadline is None else self.now_at_ms + deadline
        request = StartRequest("acme", "order-1", "start-1", deadline_at, options.get("payload"))
        self.history: list[dict[str, Any]] = [self.entry(request)]
        self.doc = doc

    def apply(self, event: Event) -> Any:
        decision = super().apply(event)
        self.history.append(self.entry(event))
        return decision

    def entry(self, event: Any) -> dict[str, Any]:
        return {
            "now_at_ms": self.now_at_ms,
            "event": to_plain(event),
            "snapshot": to_json(self.decided.snapshot),
            "commands": [[c.activation, c.command_id, c.expires_at_ms] for c in self.last.commands],
        }


def serial_with_undo() -> Recorder:
    saga = Recorder(document({n: compensatable() for n in "abc"}, "a", "b", "c"))
    saga.answer("a", "SUCCEEDED")
    saga.answer("b", "SUCCEEDED")
    saga.wake()
    saga.wake()
    saga.answer("c", "CANCEL_CONFIRMED", "CANCEL")
    saga.answer("b", "UNKNOWN", "COMPENSATE")
    saga.answer("b", "REJECTED", "RESOLVE", target="COMPENSATE")
    saga.wake()
    saga.answer("b", "SUCCEEDED", "COMPENSATE")
    saga.answer("a", "SUCCEEDED", "COMPENSATE")
    return saga


def revoked_by_the_pivot() -> Recorder:
    steps = {"a": compensatable(), "p": pivot(cancellable=True), "r": retriable()}
    saga = Recorder(document(steps, "a", "p", "r"), deadline_ms=5_000)
    saga.answer("a", "SUCCEEDED")
    saga.wake()
    saga.answer("p", "ALREADY_TERMINAL:SUCCEEDED", "CANCEL")
    saga.answer("r", "REJECTED")
    saga.wake()
    saga.answer("r", "SUCCEEDED", attempt=1)
    return saga


def halted_beside_a_rejection() -> Recorder:
    steps = {"a": compensatable(), "b": compensatable(cancellable=False)}
    saga = Recorder(document(steps, parallel("all", x="a", y="b")))
    saga.answer("all.x.a", "REJECTED")
    saga.answer("all.y.b", "HALTED")
    saga.apply(Retry(saga.operation()))
    saga.answer("all.y.b", "HALTED", "RESOLVE", target="EXECUTE")
    saga.wait(1_000_000)
    said = AttestedOutcome("all.y.b", ForwardState.SUCCEEDED)
    saga.apply(RecordOutcome(saga.operation(), said, "the books"))
    saga.answer("all.y.b", "HALTED", "COMPENSATE")
    saga.apply(RecordOutcome(saga.operation(), AttestedUndo("all.y.b", happened=True), "the books"))
    return saga


def paused_and_resumed() -> Recorder:
    saga = Recorder(document({"a": compensatable(), "b": compensatable()}, "a", "b"))
    saga.apply(Pause(saga.operation()))
    saga.wait(60_000)
    saga.deliver(1)
    saga.answer("a", "SUCCEEDED")
    saga.apply(Resume(saga.operation()))
    saga.wait(60_000)
    saga.sweep()
    saga.answer("b", "RESOLUTION_PENDING", "CANCEL")
    saga.answer("b", "SUCCEEDED")
    return saga


def attested_branch() -> Recorder:
    contract = {"content_type": "application/json", "schema_id": "s"}
    doc = document(
        {"a": compensatable(payload=contract), "b": compensatable()},
        choice("size", "b", big=("amount > 3", {"step": "a", "input": {"x": "amount"}})),
        variables={"amount": "json"},
        input={**contract, "set": {"amount": ""}},
    )
    saga = Recorder(doc, payload=Payload("application/json", "s", b'"many"'))
    saga.apply(RecordOutcome(saga.operation(), AttestedBranch("size", "big"), "asked the buyer"))
    saga.apply(Cancel(saga.operation()))
    saga.answer("size.big.a", "SUCCEEDED")
    saga.answer("size.big.a", "SUCCEEDED", "COMPENSATE")
    return saga


RECORDINGS = (
    serial_with_undo,
    revoked_by_the_pivot,
    halted_beside_a_rejection,
    paused_and_resumed,
    attested_branch,
)


def replay(history: dict[str, Any], definition: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Yield every entry with what today's engine decides."""
    snapshot = None
    for entry in history["entries"]:
        event, now_at_ms = from_plain(entry["event"]), entry["now_at_ms"]
        if snapshot is None:
            decision = start(definition, event, now_at_ms)
        else:
            decision = decide(definition, snapshot, event, now_at_ms)
        snapshot = decision.snapshot
        yield entry, decision


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for recording in RECORDINGS:
        path = FOLDER / f"{recording.__name__}.json"
        if not path.exists():
            saga = recording()
            history = {"document": saga.doc, "entries": saga.history}
            path.write_text(json.dumps(history, indent=1) + "\n")


if __name__ == "__main__":
    main()
