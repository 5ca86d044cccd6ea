"""Traps that only a whole orchestrator can step into."""

from sagabus_core.canonical import JsonValue
from sagabus_core.engine import Retry
from sagabus_core.vocabulary import Phase, ResultStatus

from .support import Rig, commands, operation, order, step

R = ResultStatus


async def test_trap_08_a_running_saga_stays_on_the_version_that_it_began_with(rig: Rig) -> None:
    """A release that puts a step in front must not shift what already runs."""
    sent = await rig.process(rig.start_record("OLD"))
    shifted = order(2)
    steps, flow = shifted["steps"], shifted["flow"]
    assert isinstance(steps, dict)
    assert isinstance(flow, dict)
    steps["screen"] = step("payment", "compensatable")
    nodes: JsonValue = flow["sequence"]
    assert isinstance(nodes, list)
    flow["sequence"] = [{"step": "screen"}, *nodes]
    await rig.publish(shifted)

    sent += await rig.process(rig.start_record("NEW"))
    told: dict[str, list[str]] = {}
    while asked := commands(sent):
        for command in asked:
            told.setdefault(command.business_key, []).append(command.step)
        owners = {"screen": "payment"}
        sent = await rig.process(
            *(rig.result_record(c, participant=owners.get(c.step)) for c in asked)
        )
    assert told["OLD"] == ["reserve", "charge", "ship", "confirm"]
    assert told["NEW"] == ["screen", *told["OLD"]]


async def test_trap_09_a_failing_undo_is_kept_for_a_person_whose_retry_is_on_record(
    rig: Rig,
) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    (charge,) = commands(await rig.process(rig.result_record(reserve)))
    (undo,) = commands(await rig.process(rig.result_record(charge, R.REJECTED)))
    assert (undo.step, undo.phase) == ("reserve", Phase.COMPENSATE)
    await rig.process(rig.result_record(undo, R.HALTED))
    status = "select status from saga where business_key = 'ORD-1'"
    assert await rig.value(status) == "MANUAL_INTERVENTION"

    await rig.operations.perform("acme", rig.saga("ORD-1"), Retry(operation("again")))
    (undo,) = commands(await rig.read_outbox())
    assert (undo.attempt, undo.recovery_operation_id) == (2, "again")
    await rig.process(rig.result_record(undo))
    assert await rig.value(status) == "COMPENSATED"
    facts = [fact for fact in await rig.facts("ORD-1") if fact.get("actor") == "ada"]
    assert facts, "who did it stands in the journal"
