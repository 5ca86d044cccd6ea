"""The audit accepts what the engine wrote, and names every way in which a journal can be wrong."""

import json
from collections.abc import Iterable
from dataclasses import replace

import pytest

from sagabus_core.engine import (
    Event,
    ResultReceived,
    StartRequest,
    WakeupDelivered,
    decide,
    start,
    to_json,
)
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Topics, json_payload
from sagabus_messages.strict_json import dump
from sagabus_orchestrator.entry import NO_HEAD, Entry, Scene
from sagabus_testkit.orders import Order, scenario

from .audit import SagaRecord, StoredFact, audit
from .findings import by_second, longest_gap_ms
from .workflow import patient_definition

ORDER = Order("A-1", scenario("success"), "widget-1", 1, 100)
WORKFLOW = patient_definition()
BEGIN_MS = 1_700_000_000_000
_OUTPUTS: dict[str, Payload] = {
    "reserve-stock": json_payload({"reservation_id": "r"}, "inventory.reserve-stock.output.v1"),
    "charge-card": json_payload({"charge_id": "c"}, "payment.charge-card.output.v1"),
    "ship": json_payload({"shipment_id": "s"}, "shipping.ship.output.v1"),
}


def answer(step: str, status: ResultStatus, phase: Phase = Phase.EXECUTE) -> ResultReceived:
    output = _OUTPUTS.get(step) if status is ResultStatus.SUCCEEDED else None
    return ResultReceived(
        f"event-{step}-{phase}-{status}",
        step,
        phase,
        1,
        status,
        output=output if phase is Phase.EXECUTE else None,
    )


DONE = [answer(step, ResultStatus.SUCCEEDED) for step in (*_OUTPUTS, "confirm")]
UNDONE = [
    *DONE[:2],
    answer("ship", ResultStatus.REJECTED),
    answer("charge-card", ResultStatus.SUCCEEDED, Phase.COMPENSATE),
    answer("reserve-stock", ResultStatus.SUCCEEDED, Phase.COMPENSATE),
]
CANCELLED: list[Event] = [
    WakeupDelivered("wake-1", 1),
    answer("reserve-stock", ResultStatus.CANCEL_CONFIRMED, Phase.CANCEL),
]


def recorded(events: Iterable[Event]) -> SagaRecord:
    """Return what the orchestrator's tables would hold."""
    request = StartRequest("default", ORDER.key, "start-1", None, ORDER.command.payload)
    decision = start(WORKFLOW, request, BEGIN_MS)
    entry = Entry("", WORKFLOW, decision.snapshot, NO_HEAD, "start-1")
    entry.take(decision, Scene(Topics(""), BEGIN_MS))
    for number, event in enumerate(events, 1):
        now_ms = BEGIN_MS + number * 21_000
        decision = decide(WORKFLOW, entry.snapshot, event, now_ms)
        entry.take(decision, Scene(Topics(""), now_ms))
    facts = [StoredFact(fact.revision, fact.fact, fact.head) for fact in entry.facts]
    snapshot = dump(to_json(entry.snapshot))
    return SagaRecord("default", ORDER.key, ORDER.command.payload, snapshot, entry.head, facts)


def problems(record: SagaRecord) -> str:
    return "\n".join(audit(record, WORKFLOW))


@pytest.mark.parametrize("events", [[], DONE[:2], DONE, UNDONE, CANCELLED])
def test_what_the_engine_wrote_is_right(events: list[Event]) -> None:
    assert problems(recorded(events)) == ""


def test_a_lost_fact_breaks_the_chain() -> None:
    record = recorded(DONE)
    assert "the chain of heads is broken" in problems(replace(record, facts=record.facts[1:]))


def test_a_lost_decision_is_missed() -> None:
    record = recorded(DONE)
    cut = [fact for fact in record.facts if fact.revision < 5]
    assert "the saga's head is not that of its journal" in problems(replace(record, facts=cut))


def test_an_edited_fact_is_found() -> None:
    record = recorded(DONE)
    forged = replace(record.facts[3], fact=record.facts[3].fact.replace(b"_id", b"_ID"))
    facts = [*record.facts[:3], forged, *record.facts[4:]]
    assert "the chain of heads is broken at fact 3" in problems(replace(record, facts=facts))


def test_a_decision_that_the_engine_would_not_make_is_found() -> None:
    record = recorded(DONE)
    other = replace(record, payload=recorded([]).payload and json_payload({}, "order.v1"))
    assert "revision 1" in problems(other)


def test_a_snapshot_that_does_not_follow_is_found() -> None:
    snapshot = json.loads(recorded(DONE[:2]).snapshot)
    record = replace(recorded(DONE), snapshot=dump(snapshot))
    assert "the snapshot does not follow from the journal" in problems(record)


def test_two_truths_about_one_step_are_found() -> None:
    late = [*CANCELLED, answer("reserve-stock", ResultStatus.SUCCEEDED)]
    assert "reserve-stock is both done and not done" in problems(recorded(late))


def test_an_ending_without_its_facts_is_found() -> None:
    snapshot = json.loads(recorded(DONE).snapshot)
    record = replace(recorded(DONE[:2]), snapshot=dump(snapshot))
    assert "COMPLETED, but nothing says that" in problems(record)
    undone = json.loads(recorded(UNDONE).snapshot)
    record = replace(recorded(UNDONE[:4]), snapshot=dump(undone))
    assert "COMPENSATED, but reserve-stock is done and nothing undid it" in problems(record)


def test_the_longest_gap_counts_from_the_beginning_to_the_end() -> None:
    assert longest_gap_ms([], 0, 100) == 100
    assert longest_gap_ms([10, 80, 200], 0, 100) == 70
    assert longest_gap_ms([90, 30], 0, 100) == 60
    assert longest_gap_ms([60, 95], 0, 100) == 60


def test_decisions_are_counted_by_second() -> None:
    assert by_second([], 500) == []
    assert by_second([600, 1_400, 3_600], 500) == [2, 0, 0, 1]
