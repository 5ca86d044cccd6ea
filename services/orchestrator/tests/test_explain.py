"""What would move a saga, from facts alone; and what the proof of obligations finds."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from sagabus_core.testing import SagaDriver, compensatable, document, pivot, retriable
from sagabus_core.vocabulary import Control, ResultStatus
from sagabus_orchestrator.upkeep.body import ArchivedFact, Body, pack, unpack
from sagabus_orchestrator.upkeep.proof import Columns, Fault, defect_of, drift
from sagabus_orchestrator.why import BusFacts, Facts, Place, explain
from sagabus_orchestrator.why.facts import asked

COMMANDS, RESULTS = "sagabus.command.a.v1", "sagabus.result.a.v1"


@pytest.fixture
def saga() -> SagaDriver:
    steps = {"a": compensatable(), "b": pivot(), "c": retriable()}
    return SagaDriver(document(steps, *steps))


def facts(saga: SagaDriver, *places: Place) -> Facts:
    open_steps = asked(saga.snapshot, saga.definition)
    return Facts(
        saga=saga.snapshot,
        now_ms=saga.now_at_ms,
        asked=open_steps,
        command_topics={item.path: COMMANDS for item in open_steps},
        result_topics={item.path: RESULTS for item in open_steps},
        bus=BusFacts(places),
    )


def place(topic: str, behind: int, members: int) -> Place:
    return Place(topic, 1, "group", members, 10, 10 + behind)


def test_what_moves_a_saga_follows_the_message(saga: SagaDriver) -> None:
    def word(*places: Place) -> str:
        return explain(facts(saga, *places)).waits_for

    assert word() == "answer"
    assert word(place(COMMANDS, 1, 0)) == "participant"
    assert word(place(COMMANDS, 1, 1)) == "participant"
    assert word(place(COMMANDS, 0, 0)) == "participant"
    assert word(place(COMMANDS, 0, 1), place(RESULTS, 2, 1)) == "orchestrator"
    assert word(place(COMMANDS, 0, 1), place(RESULTS, 0, 1)) == "answer"


def test_a_retry_and_a_passed_deadline_are_told(saga: SagaDriver) -> None:
    saga.answer("a", ResultStatus.SUCCEEDED)
    saga.answer("b", ResultStatus.SUCCEEDED)
    saga.answer("c", ResultStatus.REJECTED)
    told = explain(facts(saga))
    assert told.waits_for == "retry"
    assert "EXECUTE c attempt 1 ended without success" in told.points[0].text
    late = replace(facts(saga), now_ms=saga.now_at_ms + 10**9)
    assert "s ago" in explain(late).moved_by


def test_an_ended_saga_is_moved_by_nothing(saga: SagaDriver) -> None:
    saga.answer("a", ResultStatus.REJECTED)
    told = explain(replace(facts(saga), archived_at=datetime(2026, 1, 2, tzinfo=UTC)))
    assert told.waits_for == "nothing"
    assert [point.about for point in told.points] == ["archive"]


def test_sagas_that_the_engine_made_are_obliged_and_broken_ones_are_not(saga: SagaDriver) -> None:
    now, made = saga.now_at_ms, saga.snapshot
    assert defect_of(made, now) is None
    assert drift(made, Columns("RUNNING", "ACTIVE", made.revision, made.armed_at_ms)) is None
    armed = made.armed_at_ms or 0
    assert defect_of(made, armed + 60_000) is None
    for broken, at_ms, fault in (
        (made, armed + 60_001, Fault.OVERDUE),
        (made._replace(armed_at_ms=None), now, Fault.NOT_ARMED),
        (made._replace(armed_at_ms=armed + 1_001), now, Fault.ARMED_TOO_LATE),
        (made._replace(activations={}), now, Fault.NOTHING_OPEN),
    ):
        found = defect_of(broken, at_ms)
        assert found is not None
        assert found.fault is fault
    assert defect_of(made._replace(control=Control.PAUSED, armed_at_ms=None), now) is None


def test_the_archive_gives_back_the_bytes(saga: SagaDriver) -> None:
    del saga
    fact = ArchivedFact(1, 0, '{"at":"é \\u2028"}'.encode(), bytes(32), datetime.now(UTC))
    body = Body(b'{"v":1}', (fact,))
    assert unpack(pack(body)) == body
