"""Holds: no command of a workflow, or to a participant, is issued until they are released."""

import asyncio

import pytest

from sagabus_core.engine import Retry
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import START_REFUSED, Command, WakeupRequest
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.errors import Held, NotFound, Refused
from sagabus_orchestrator.switchboard import Releaser, Switchboard
from sagabus_runtime import failpoints
from sagabus_testkit import eventually

from .support import Rig, Shell, commands, lifecycle, operation, order, pause, resume

ADA = By("ada", "it is on fire")


def switchboard(rig: Rig) -> Switchboard:
    return Switchboard(rig.database)


async def let_go(rig: Rig) -> list[Command]:
    """Let everything go on that a released hold has paused; return what is issued then."""
    releaser, found = Releaser(rig.database, rig.operations), 1
    while found:
        await rig.run("update upkeep_job set due_at = 'epoch'")
        found = await releaser.tick()
    return commands(await rig.read_outbox())


async def control(rig: Rig, key: str = "ORD-1") -> object:
    return await rig.value("select control from saga where id = $1", rig.saga(key))


async def test_a_saga_is_paused_when_it_would_ask_a_held_participant_and_goes_on_afterwards(
    rig: Rig,
) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    assert await control(rig) == "ACTIVE", "it is asked of somebody else"
    assert commands(await rig.process(rig.result_record(reserve))) == []
    assert await control(rig) == "PAUSED"
    (hold,) = await switchboard(rig).list()
    assert (hold.name, hold.sagas) == ("payment", 1)
    fact = (await rig.facts("ORD-1"))[-1]
    assert (fact["actor"], fact["reason"]) == (
        *("ada", "participant payment is held: it is on fire"),
    )
    await switchboard(rig).release("participant", "payment", By("bob", "mended"))
    (charge,) = await let_go(rig)
    assert (charge.step, charge.attempt) == ("charge", 1)
    assert await switchboard(rig).list() == []
    assert await rig.count("held_saga") == 0


async def test_sagas_that_ask_others_are_not_touched(rig: Rig) -> None:
    await switchboard(rig).set("participant", "shipping", ADA)
    (reserve,) = commands(await rig.process(rig.start_record()))
    (charge,) = commands(await rig.process(rig.result_record(reserve)))
    assert commands(await rig.process(rig.result_record(charge))) == []
    assert await control(rig) == "PAUSED"


async def test_a_held_workflow_issues_nothing_and_starts_nothing(rig: Rig) -> None:
    await rig.publish(order(workflow="refund"))
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("workflow", "order", ADA)
    sent = await rig.process(
        rig.result_record(reserve),
        rig.start_record("ORD-2"),
        rig.start_record("R-1", workflow="refund"),
    )
    assert [command.workflow for command in commands(sent)] == ["refund"]
    told = {event.business_key: (event.status, event.reason_code) for event in lifecycle(sent)}
    assert told["ORD-2"] == (START_REFUSED, "issuing_held")
    await switchboard(rig).release("workflow", "order", ADA)
    assert [command.step for command in await let_go(rig)] == ["charge"]
    assert len(commands(await rig.process(rig.start_record("ORD-2")))) == 1, "no key is burnt"


async def test_a_start_whose_first_command_is_held_is_refused(rig: Rig) -> None:
    await switchboard(rig).set("participant", "inventory", ADA)
    (event,) = lifecycle(await rig.process(rig.start_record()))
    assert (event.status, event.reason_code) == (START_REFUSED, "issuing_held")
    assert await rig.count("saga_key") == 0


async def test_a_hold_of_one_tenant_is_not_felt_by_another(rig: Rig) -> None:
    await switchboard(rig).set("workflow", "order", ADA, "acme")
    sent = await rig.process(rig.start_record(), rig.start_record(tenant="other"))
    assert [command.tenant for command in commands(sent)] == ["other"]


async def test_a_deadline_that_would_issue_pauses_and_acts_on_release(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    (request,) = [message for message in sent if isinstance(message, WakeupRequest)]
    assert request.at_ms is not None
    await switchboard(rig).set("participant", "inventory", ADA)
    await rig.until(request.at_ms)
    assert commands(await rig.process(rig.wakeup_record(request))) == []
    assert await control(rig) == "PAUSED"
    assert await rig.value("select armed_at_ms from saga") is None
    await switchboard(rig).release("participant", "inventory", ADA)
    assert [(c.step, c.phase) for c in await let_go(rig)] == [("reserve", "CANCEL")]


async def test_the_sweep_holds_too(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    (request,) = [message for message in sent if isinstance(message, WakeupRequest)]
    assert request.at_ms is not None
    await switchboard(rig).set("workflow", "order", ADA)
    await rig.until(request.at_ms)
    assert await rig.sweeper.sweep() == 1
    assert commands(await rig.read_outbox()) == []
    assert await control(rig) == "PAUSED"
    assert await rig.sweeper.sweep() == 0


async def test_what_comes_meanwhile_is_deferred_and_applied_in_order(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(reserve), rig.result_record(reserve, ordinal=2))
    assert await rig.count("deferred_message") == 2
    await switchboard(rig).release("participant", "payment", ADA)
    assert [command.step for command in await let_go(rig)] == ["charge"]
    assert await rig.count("deferred_message") == 0
    assert await rig.dead_letters() == []


async def test_an_end_that_issues_nothing_is_reached_although_held(rig: Rig) -> None:
    sent = await rig.process(rig.start_record())
    for _ in range(3):
        sent = await rig.process(*(rig.result_record(c) for c in commands(sent)))
    (confirm,) = commands(sent)
    await switchboard(rig).set("workflow", "order", ADA)
    (event,) = lifecycle(await rig.process(rig.result_record(confirm)))
    assert event.status == "COMPLETED"


async def test_operations_that_would_issue_are_refused(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await rig.process(rig.start_record("ORD-2"))
    await rig.process(rig.result_record(reserve, ResultStatus.HALTED))
    await switchboard(rig).set("workflow", "order", ADA)
    with pytest.raises(Held) as found:
        await rig.operations.perform("acme", reserve.saga_id, Retry(operation("r")))
    assert found.value.code == "issuing_held"
    await rig.operations.perform("acme", rig.saga("ORD-2"), pause("p"))
    await switchboard(rig).release("workflow", "order", ADA)
    await rig.operations.perform("acme", reserve.saga_id, Retry(operation("r")))
    assert await let_go(rig) != []
    assert await control(rig, "ORD-2") == "PAUSED", "what a person paused stays paused"


async def test_a_saga_of_two_holds_waits_for_both(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await switchboard(rig).set("workflow", "order", ADA)
    await rig.process(rig.result_record(reserve))
    await switchboard(rig).release("participant", "payment", ADA)
    assert await let_go(rig) == []
    (hold,) = await switchboard(rig).list()
    assert (hold.target, hold.sagas) == ("workflow", 1)
    await switchboard(rig).release("workflow", "order", ADA)
    assert [command.step for command in await let_go(rig)] == ["charge"]


async def test_once_it_is_set_nothing_is_issued_not_even_by_batches_under_way(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    with failpoints.armed("orchestrator.after-clock=stall:300ms@1"):
        batch = asyncio.create_task(rig.handler.process([rig.result_record(reserve)]))
        await eventually(lambda: failpoints.hits("orchestrator.after-clock") == 1)
        await switchboard(rig).set("participant", "payment", ADA)
        sent = commands(await rig.read_outbox())
        await batch
    assert [command.step for command in sent] == ["charge"], "it was issued before, and seen"
    assert await rig.read_outbox() == []


async def test_setting_and_releasing_twice_and_what_makes_no_sense(rig: Rig) -> None:
    first = await switchboard(rig).set("workflow", "order", ADA)
    assert await switchboard(rig).set("workflow", "order", By("bob", "me too")) == first
    await switchboard(rig).release("workflow", "order", ADA)
    with pytest.raises(NotFound):
        await switchboard(rig).release("workflow", "order", ADA)
    with pytest.raises(Refused) as unexplained:
        await switchboard(rig).set("workflow", "order", By("ada", " "))
    assert unexplained.value.code == "invalid_operation"
    with pytest.raises(InvalidValue):
        await switchboard(rig).set("workflow", "Not A Name", ADA)
    told = await rig.value(
        "select array_agg(kind || ' ' || outcome order by seq) from audit where kind like 'pause:%'"
    )
    assert told == [
        "pause:set done",
        "pause:release done",
        "pause:release refused",
        "pause:set refused",
        "pause:set refused",
    ]


async def test_command_why_and_doctor_tell_of_it(rig: Rig, shell: Shell) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    said = await shell("hold", "set", "participant", "payment", "--reason", "fire")
    assert (said["target"], said["name"], said["sagas"]) == ("participant", "payment", 0)
    await rig.process(rig.result_record(reserve))
    (held,) = (await shell("hold", "list"))["holds"]
    assert (held["sagas"], held["reason"]) == (1, "fire")
    why = await shell("why", "ORD-1", "--kafka", "127.0.0.1:1")
    assert why["waits_for"] == "release"
    assert "hold release participant payment" in why["moved_by"]
    said = await shell("resume", "ORD-1", "--reason", "x", code=4)
    assert said["error"]["code"] == "issuing_held"
    await shell("hold", "release", "participant", "payment", "--reason", "out")
    assert [command.step for command in await let_go(rig)] == ["charge"]
    again = await shell("hold", "release", "participant", "payment", "--reason", "out", code=4)
    assert again["error"]["code"] == "not_found"


async def test_a_person_who_resumes_where_nothing_is_issued_is_not_held(rig: Rig) -> None:
    await rig.process(rig.start_record())
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    assert await control(rig) == "ACTIVE"


async def test_what_a_person_resumed_and_paused_again_stays_paused(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(reserve))
    await switchboard(rig).release("participant", "payment", ADA)
    await rig.operations.perform("acme", reserve.saga_id, resume("r"))
    await rig.operations.perform("acme", reserve.saga_id, pause("p"))
    await let_go(rig)
    assert await control(rig) == "PAUSED", "not for the hold, which is gone"


async def test_a_tenant_at_its_rate_keeps_no_other_from_going_on(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Releaser, "BATCH", 1)
    sent = await rig.process(rig.start_record(), rig.start_record(tenant="other"))
    first, second = sorted(commands(sent), key=lambda command: command.saga_id)
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(first), rig.result_record(second))
    await rig.tenants.set_rate(first.tenant, "operation", 0)
    await switchboard(rig).release("participant", "payment", ADA)
    assert [command.tenant for command in await let_go(rig)] == [second.tenant]
