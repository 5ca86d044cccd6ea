"""The kit in memory: what it refuses, what it shows, time, operations, and resources."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import pytest
from pydantic import BaseModel

from sagabus_core.engine import Cancel, Pause, Resume, Retry
from sagabus_core.testing import compensatable, document, pivot, retriable
from sagabus_participant import (
    Executed,
    ExternalContext,
    ExternalStep,
    Halted,
    LocalContext,
    LocalStep,
    Participant,
    Rejected,
    Resolved,
    StepOptions,
    Succeeded,
    Transient,
    Unknown,
)
from sagabus_testkit.memory import HONEST, InDoubt, KitError, KitMaker, SagaKit

pytest_plugins = ["pytester"]
TRIP = document(
    {"car": compensatable(), "hotel": compensatable(cancellable=False), "pay": pivot()},
    "car",
    "hotel",
    "pay",
)


Answer: TypeAlias = Succeeded | Rejected | Halted


class Nothing(BaseModel):
    pass


@dataclass
class Ledger:
    rows: list[str] = field(default_factory=list)


class Car(LocalStep[Nothing]):
    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers = list(answers)

    async def execute(self, ctx: LocalContext, order: Nothing) -> Answer:
        ledger: Any = ctx.conn
        ledger.rows.append(f"car {ctx.attempt}")
        answer = self.answers.pop(0) if self.answers else Succeeded()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def compensate(self, ctx: LocalContext) -> Succeeded:
        ledger: Any = ctx.conn
        ledger.rows.append("car undone")
        return Succeeded()


def shop(*answers: Answer | Exception) -> Participant:
    participant = Participant("shop")
    participant.add("car", Nothing, Car(*answers), StepOptions())
    return participant


def trip(saga_kit: KitMaker, *answers: Any, **resources: Any) -> SagaKit:
    kit = saga_kit(TRIP, shop(*answers), **resources)
    kit.stub("hotel")
    kit.stub("pay")
    return kit


async def test_a_local_handler_that_is_stuck_runs_again_until_it_works(saga_kit: KitMaker) -> None:
    ledger = Ledger()
    kit = trip(saga_kit, Transient("busy"), Transient("busy"), conn=ledger)

    saga = await kit.run()

    saga.expect("COMPLETED", calls=["car.execute"] * 3 + ["hotel.execute", "pay.execute"])
    assert ledger.rows == ["car 1"], "what a failed try did was put back"


async def test_one_that_is_stuck_too_long_is_cancelled(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, *[Transient("busy")] * 50, conn=Ledger())

    saga = await kit.run()

    saga.expect("COMPENSATED", done=[], states={"car": "CANCELLED"})
    assert "+10.000  · car: EXECUTE #1 is ignored: expired" in saga.timeline


async def test_a_crash_of_a_local_step_leaves_nothing_and_is_run_again(saga_kit: KitMaker) -> None:
    ledger = Ledger()
    kit = trip(saga_kit, conn=ledger)
    kit.on("car").crash()

    (await kit.run()).expect("COMPLETED", done=["car", "hotel", "pay"])
    assert ledger.rows == ["car 1"]


async def test_a_transaction_of_the_team_is_committed_or_rolled_back(saga_kit: KitMaker) -> None:
    ended: list[str] = []

    @asynccontextmanager
    async def transaction() -> AsyncIterator[Ledger]:
        try:
            yield Ledger()
        except BaseException:
            ended.append("rolled back")
            raise
        ended.append("committed")

    kit = trip(saga_kit, Transient("busy"), transaction=transaction)
    (await kit.run()).expect("COMPLETED")
    assert ended == ["rolled back", "committed"]


async def test_each_external_crash_is_found_out_about(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, conn=Ledger())
    kit.stub("pay", InDoubt({"n": 1}), resolve=[Unknown(), HONEST])
    kit.on("hotel").crash()
    kit.on("pay", "RESOLVE").lose_answer()

    saga = await kit.run()

    saga.expect("COMPLETED")
    assert saga.calls.count("hotel.execute") == saga.calls.count("pay.execute") == 1


async def test_pause_holds_answers_until_the_resume(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, conn=Ledger())
    kit.on("hotel").delay_answer(2_000)
    saga = kit.start()
    await kit.advance(1_000)

    held = await kit.operate(saga, Pause)
    assert (held.status, held.done) == ("RUNNING", ("car",))
    assert "an answer waits for the resume" in held.timeline

    (await kit.operate(held, Resume)).expect("COMPLETED", done=["car", "hotel", "pay"])


async def test_operations_of_a_person(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, Halted("ask_olga"), conn=Ledger())

    halted = await kit.run(key="A")
    halted.expect("MANUAL_INTERVENTION", reason="step_halted")
    (await kit.operate(halted, Retry, "asked")).expect("COMPLETED")

    kit.on("hotel").delay_command(3_000)
    started = kit.start(key="B")
    await kit.advance(1_000)
    (await kit.operate(started, Cancel)).expect("COMPENSATED", undone=["hotel", "car"])


async def test_a_callback_by_hand(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, conn=Ledger())
    kit.stub("pay", Unknown(), resolve=[Unknown()])
    saga = kit.start()
    await kit.advance(3_000)

    (await kit.call_back(saga, "pay", Succeeded({"n": 1}))).expect("COMPLETED")
    with pytest.raises(KitError, match="nothing_to_call_back"):
        await kit.call_back(saga, "car", Succeeded())


class Hotel(ExternalStep[Nothing]):
    async def execute(self, ctx: ExternalContext, order: Nothing) -> Executed:
        ctx.db.transaction()
        return Succeeded()

    async def resolve(self, ctx: ExternalContext) -> Resolved:
        return Unknown()


async def test_what_does_not_fit_is_said_before_anything_runs(saga_kit: KitMaker) -> None:
    with pytest.raises(KitError, match=r"no handler for car \(of shop\)"):
        saga_kit(TRIP).start()
    with pytest.raises(KitError, match="step_unknown"):
        saga_kit(TRIP).stub("boat")
    with pytest.raises(KitError, match="has no step 'boat', but: car, hotel, pay"):
        saga_kit(TRIP).on("boat")
    with pytest.raises(KitError, match="stub_of_own_step"):
        saga_kit(TRIP, shop()).stub("car")
    with pytest.raises(KitError, match="participant_twice"):
        saga_kit(TRIP, shop(), shop())
    with pytest.raises(KitError, match="key_used"):
        kit = trip(saga_kit)
        kit.start(key="A")
        kit.start(key="A")


async def test_handlers_and_definition_are_compared(saga_kit: KitMaker) -> None:
    participant = shop()
    participant.add("hotel", Nothing, Hotel(), StepOptions())
    contract = {"content_type": "application/json", "schema_id": "other.v1"}
    steps = {
        "car": compensatable(payload=contract),
        "hotel": compensatable(),
        "pay": pivot(),
        "send": retriable(),
    }
    kit = saga_kit(document(steps, "car", "hotel", "pay", "send"), participant)
    kit.stub("pay")
    kit.stub("send")

    with pytest.raises(KitError) as refused:
        kit.start()

    assert refused.value.code == "handlers_disagree"
    for told in ("it is sent other.v1", "has no `compensate`", "has no `cancel`"):
        assert told in refused.value.detail


async def test_a_missing_resource_is_named(saga_kit: KitMaker) -> None:
    with pytest.raises(KitError, match=r"ctx\.conn\.rows: give the kit `conn=`"):
        await trip(saga_kit).run()


async def test_a_stub_that_cannot_answer_so_is_named(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, conn=Ledger())
    kit.stub("hotel", HONEST)
    with pytest.raises(KitError, match="act_does_not_fit"):
        await kit.run()


async def test_an_unmet_expectation_tells_all_differences_and_the_story(
    saga_kit: KitMaker,
) -> None:
    kit = trip(saga_kit, KeyError("a bug"), conn=Ledger())
    saga = await kit.run()

    with pytest.raises(AssertionError) as failed:
        saga.expect("COMPLETED", done=["car"], undone=[], states={"car": "SUCCEEDED"})

    told = str(failed.value)
    assert "status: expected COMPLETED, is MANUAL_INTERVENTION" in told
    assert "done: expected car, is nothing" in told
    assert "states: expected" in told
    assert "undone" not in told
    assert "ƒ car.execute raised KeyError('a bug')" in told


async def test_faults_that_never_happened_are_named(saga_kit: KitMaker) -> None:
    kit = trip(saga_kit, conn=Ledger())
    kit.on("car").repeat_command()
    kit.on("hotel", "RESOLVE", attempt=2).lose_answer()
    await kit.run()
    assert kit.unused == ("hotel: RESOLVE of EXECUTE #2",)


async def test_the_same_test_tells_the_same_story(saga_kit: KitMaker) -> None:
    stories = set()
    for _ in range(2):
        kit = trip(saga_kit, conn=Ledger())
        kit.on("car").repeat_command().delay_answer(500)
        stories.add((await kit.run()).timeline)
    assert len(stories) == 1


SUITE = """
from sagabus_core.testing import document, pivot

async def test_plain(saga_kit):
    kit = saga_kit(document({"pay": pivot()}, "pay"))
    kit.stub("pay")
    saga = await kit.run(key="ORD-7")
    assert saga.status == "COMPENSATED"
"""


def test_a_failing_test_shows_the_timelines_of_its_sagas(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nasyncio_mode=auto\nmarkers =\n    stack: servers\n")
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*<Saga 'ORD-7' COMPLETED>*", "*→ pay: EXECUTE #1"])
