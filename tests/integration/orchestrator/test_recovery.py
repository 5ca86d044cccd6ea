"""After a restore: answers wait for the commands that the database has forgotten."""

import asyncio
import random

import pytest
from prometheus_client import CollectorRegistry

from sagabus_core.engine import Activation, Member, from_json
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import Command, Record
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.leftovers import Leftovers
from sagabus_orchestrator.lookout import Lookout
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_runtime import failpoints

from .support import TOPICS, Rig, commands, order, pause, resume
from .test_rivals import until_done
from .test_sweep import overdue

R = ResultStatus
ENDS = {"success": "COMPLETED", "rejection": "COMPENSATED", "unknown": "COMPLETED"}
UNLIKE = {
    ("rejection", "ship", Phase.EXECUTE): R.REJECTED,
    ("unknown", "charge", Phase.EXECUTE): R.UNKNOWN,
}


@pytest.fixture
def restored(rig: Rig) -> Rig:
    """Return a replica that settles a database which knows less than the topics do."""
    rig.handler.mode = RecoveryMode.SETTLE
    return rig


def answer(command: Command) -> ResultStatus:
    place = (command.business_key, command.step, command.phase)
    return UNLIKE.get(place, R.SUCCEEDED)


async def history(rig: Rig) -> list[Record]:
    """Run sagas to their ends, and return all that the orchestrator was sent."""
    records = [rig.start_record(key) for key in ENDS]
    todo = commands(await rig.process(*records))
    while todo:
        batch = [rig.result_record(command, answer(command)) for command in todo]
        records += batch
        todo = commands(await rig.process(*batch))
    return records


async def states(rig: Rig) -> dict[str, list[object]]:
    """Return where the sagas stand, apart from times and wake-ups."""
    found: dict[str, list[object]] = {}
    for key in ENDS:
        saga = from_json(await rig.snapshot(key))
        tracks: list[tuple[str, Activation | Member]] = [*sorted(saga.activations.items())]
        tracks += sorted(saga.members.items())
        found[key] = [saga.status, saga.plan]
        found[key] += [(path, t.state, dict(t.attempts), dict(t.answers)) for path, t in tracks]
    return found


def interleaved(records: list[Record], rng: random.Random) -> list[Record]:
    """Return the records in an order in which topics may be read again: each in its own."""
    lanes: dict[str, list[Record]] = {}
    for record in records:
        lanes.setdefault(record.topic, []).append(record)
    found = []
    while lanes:
        topic = rng.choice(sorted(lanes))
        found.append(lanes[topic].pop(0))
        if not lanes[topic]:
            del lanes[topic]
    return found


@pytest.mark.parametrize("lost", ["everything", "the last half"])
async def test_read_again_in_any_order_the_topics_lead_where_they_led(rig: Rig, lost: str) -> None:
    records = await history(rig)
    once = await states(rig)
    assert {key: state[0] for key, state in once.items()} == ENDS
    for seed in range(12):
        rng = random.Random(seed)
        await rig.wipe()
        await rig.publish(order())
        if lost == "the last half":
            rig.handler.mode = RecoveryMode.OFF
            for record in records[: len(records) // 2]:
                await rig.process(record)
        rig.handler.mode = RecoveryMode.REPLAY
        left = interleaved(records, rng)
        while left:
            size = rng.choice((1, 2, 5))
            await rig.process(*left[:size], *rng.sample(records, 1))
            left = left[size:]
        assert await states(rig) == once, seed
        assert await rig.count("early_result") == 0
        assert await rig.dead_letters() == []


async def test_an_answer_waits_for_its_saga_and_moves_it_in_the_transaction_of_its_start(
    restored: Rig,
) -> None:
    rig = restored
    early = [rig.result_record(rig.foretold("ORD-1", step)) for step in ("charge", "reserve")]
    assert await rig.process(*early, *early) == []
    assert await rig.process(early[0]) == []
    assert await rig.count("early_result") == 2
    assert [each.saga_status for each in await Leftovers(rig.database, TOPICS).page()] == [None] * 2

    sent = await rig.process(rig.start_record())
    assert [c.step for c in commands(sent)] == ["reserve", "charge", "ship"]
    assert await rig.count("early_result") == 0
    revision = await rig.value("select revision from saga")
    assert await rig.process(*early) == []
    assert await rig.value("select revision from saga") == revision


async def test_what_was_kept_is_applied_although_the_mode_is_off_again(restored: Rig) -> None:
    rig = restored
    await rig.process(rig.result_record(rig.foretold("ORD-1", "reserve")))
    rig.handler.mode = RecoveryMode.OFF
    sent = await rig.process(rig.start_record())
    assert [c.step for c in commands(sent)] == ["reserve", "charge"]
    await rig.process(rig.result_record(rig.foretold("ORD-1", "ship")))
    assert await rig.dead_letters() == ["attempt_never_issued"]


@pytest.mark.parametrize("first", ["start", "answer"])
async def test_a_start_and_an_early_answer_at_once_meet(restored: Rig, first: str) -> None:
    rig = restored
    start = [rig.start_record()]
    answer = [rig.result_record(rig.foretold("ORD-1", "reserve"))]
    batches = [start, answer] if first == "start" else [answer, start]
    with failpoints.armed("orchestrator.after-clock=stall:200ms"):
        await asyncio.gather(*(until_done(rig, batch) for batch in batches))
    assert await rig.count("early_result") == 0
    assert [c.step for c in commands(await rig.read_outbox())] == ["reserve", "charge"]


async def test_replicas_that_restore_together_never_deadlock(restored: Rig) -> None:
    rig = restored
    rng = random.Random(3)
    keys = [f"ORD-{n}" for n in range(20)]
    pool = [rig.start_record(key) for key in keys]
    pool += [
        rig.result_record(rig.foretold(key, step)) for key in keys for step in ("reserve", "charge")
    ]
    batches = [rng.sample(pool, 20) for _ in range(16)]
    batches += [pool[n : n + 20] for n in (40, 20, 0)]
    await asyncio.gather(*(until_done(rig, batch) for batch in batches))
    assert await rig.count("early_result") == 0
    assert len([c for c in commands(await rig.read_outbox()) if c.step == "ship"]) == len(keys)


async def test_in_a_pause_an_early_answer_waits_beside_the_deferred_ones(restored: Rig) -> None:
    rig = restored
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.process(rig.result_record(rig.foretold("ORD-1", "charge")))
    await rig.process(rig.result_record(command))
    assert (await rig.count("early_result"), await rig.count("deferred_message")) == (1, 1)
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    assert [c.step for c in commands(await rig.read_outbox())] == ["charge", "ship"]
    assert (await rig.count("early_result"), await rig.count("deferred_message")) == (0, 0)


async def test_early_facts_that_exclude_each_other_need_a_person(restored: Rig) -> None:
    rig = restored
    command = rig.foretold("ORD-1", "reserve")
    await rig.process(rig.result_record(command), rig.result_record(command, R.REJECTED, ordinal=2))
    await rig.process(rig.start_record())
    assert (await rig.snapshot("ORD-1"))["status"] == "MANUAL_INTERVENTION"
    assert await rig.count("early_result") == 0


async def test_no_deadline_acts_before_all_topics_are_read_again(rig: Rig) -> None:
    (armed,) = await overdue(rig, "ORD-1")
    rig.handler.mode = RecoveryMode.REPLAY
    assert await rig.process(rig.wakeup_record(armed)) == []
    assert await rig.sweeper.sweep() == 0
    rig.handler.mode = RecoveryMode.SETTLE
    assert await rig.sweeper.sweep() == 1
    assert [c.phase for c in commands(await rig.read_outbox())] == [Phase.CANCEL]


async def test_what_no_command_can_ever_mend_is_a_dead_letter_as_always(restored: Rig) -> None:
    rig = restored
    command = rig.foretold("ORD-1", "charge")
    await rig.process(
        rig.result_record(command, participant="inventory"),
        rig.result_record(command.model_copy(update={"step": "reserve"})),
    )
    assert sorted(await rig.dead_letters()) == ["producer_mismatch", "unknown_activation"]
    assert (await rig.count("early_result"), await rig.count("inbox")) == (0, 0)


async def test_what_is_left_is_shown_until_a_person_discards_it(restored: Rig) -> None:
    rig = restored
    await rig.process(rig.start_record())
    await rig.process(rig.result_record(rig.foretold("ORD-1", "ship")))
    registry = CollectorRegistry()
    lookout = Lookout(rig.database, OrchestratorEvents(registry), RecoveryMode.OFF)
    left = Leftovers(rig.database, TOPICS)
    (found,) = await left.page()
    assert (found.activation, found.asked, found.answered, found.saga_status) == (
        *("ship", "EXECUTE attempt 1", "SUCCEEDED", "RUNNING"),
    )
    await lookout.look()
    assert registry.get_sample_value("sagabus_early_results") == 1
    assert registry.get_sample_value("sagabus_recovery_mode", {"mode": "off"}) == 1

    await left.discard([found.id], "ada", "shipped twice, refunded by hand")
    await lookout.look()
    assert registry.get_sample_value("sagabus_early_results") == 0
    assert await left.page() == []
    for step in ("reserve", "charge"):
        await rig.process(rig.result_record(rig.foretold("ORD-1", step)))
    assert await rig.value("select discarded_by from early_result") == "ada"
    assert (await rig.snapshot("ORD-1"))["status"] == "RUNNING"


async def test_signals_of_an_operation_are_counted_once_by_a_replica(rig: Rig) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.process(rig.result_record(command), rig.result_record(command, R.REJECTED, ordinal=2))
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    registry = CollectorRegistry()
    lookout = Lookout(rig.database, OrchestratorEvents(registry), RecoveryMode.OFF)
    await lookout.look()
    await lookout.look()
    labels = {"signal": "outcome_conflict", "label": "attempt_outcome_conflict"}
    assert registry.get_sample_value("sagabus_engine_signals_total", labels) == 1
