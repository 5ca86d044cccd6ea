"""Holds: no command of a workflow, or to a participant, is issued until they are released."""

import asyncio
import json
from typing import Any

import pytest

from sagabus_core.engine import Pause, Retry
from sagabus_core.errors import InvalidValue, OperationRefused, SagabusError, StaleSnapshot
from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import START_REFUSED, Command, WakeupRequest
from sagabus_orchestrator.audit import By
from sagabus_orchestrator.errors import Held, NotFound, Refused
from sagabus_orchestrator.operations import OperationOutcome
from sagabus_orchestrator.recovery import RecoveryMode
from sagabus_orchestrator.releaser import Releaser
from sagabus_orchestrator.switchboard import Switchboard
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
    await switchboard(rig).set("participant", "payment", ADA, "acme")
    assert await control(rig) == "ACTIVE", "it is asked of somebody else"
    assert commands(await rig.process(rig.result_record(reserve))) == []
    assert await control(rig) == "PAUSED"
    (hold,) = await switchboard(rig).list()
    assert (hold.name, hold.sagas) == ("payment", 1)
    fact = (await rig.facts("ORD-1"))[-1]
    assert (fact["actor"], fact["reason"]) == (
        *("ada", "participant payment is held: it is on fire"),
    )
    await switchboard(rig).release("participant", "payment", By("bob", "mended"), "acme")
    (charge,) = await let_go(rig)
    assert (charge.step, charge.attempt) == ("charge", 1)
    fact = (await rig.facts("ORD-1"))[-1]
    assert (fact["actor"], fact["reason"]) == (*("bob", "participant payment is released: mended"),)
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


async def test_a_release_is_no_operation_of_the_tenant(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA, "acme")
    await rig.process(rig.result_record(reserve))
    await rig.tenants.set_rate("acme", "operation", 0)
    await switchboard(rig).release("participant", "payment", ADA, "acme")
    assert [command.step for command in await let_go(rig)] == ["charge"]
    assert await rig.value("select used from action_rate") == 0


async def test_tenants_read_that_the_platform_holds_and_no_more(rig: Rig, shell: Shell) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    secret = By("ada", "globex attacks us")
    hold = await switchboard(rig).set("participant", "payment", secret)
    await rig.process(rig.result_record(reserve))
    why = json.dumps(await shell("why", "ORD-1", "--kafka", "127.0.0.1:1"))
    assert "held by the platform" in why
    await switchboard(rig).release("participant", "payment", By("bob", "globex is gone"))
    released = json.dumps(await shell("why", "ORD-1", "--kafka", "127.0.0.1:1"))
    await let_go(rig)
    told = [(f.get("actor"), f.get("reason")) for f in (await rig.facts("ORD-1")) if "actor" in f]
    assert list(dict.fromkeys(told)) == [
        ("platform", f"participant payment is held by the platform (hold {hold.id})"),
        ("platform", f"participant payment is released by the platform (hold {hold.id})"),
    ]
    for column in ("actor || reason", "coalesce(detail, '')"):
        rows = f"select string_agg({column}, ' ') from audit where tenant = 'acme'"
        why += f" {await rig.value(rows)}"
    for word in ("ada", "bob", "globex"):
        assert word not in f"{why} {released}"
    rows = "select string_agg(actor || ' ' || reason || ' ' || detail, '; ' order by seq)"
    assert await rig.value(f"{rows} from audit where kind like 'pause:%'") == (
        f"ada globex attacks us participant payment is held (hold {hold.id}); "
        f"bob globex is gone participant payment is released (hold {hold.id})"
    )


async def test_early_answers_do_not_pass_a_hold(rig: Rig) -> None:
    """In recovery mode an answer that was kept would set free what is held."""
    rig.handler.mode = RecoveryMode.SETTLE
    steps = ("reserve", "charge")
    await rig.process(*(rig.result_record(rig.foretold("ORD-1", step)) for step in steps))
    await switchboard(rig).set("participant", "shipping", ADA)
    sent = commands(await rig.process(rig.start_record()))
    assert [command.step for command in sent] == ["reserve", "charge"]
    assert await control(rig) == "PAUSED"
    assert (await rig.count("early_result"), await rig.count("deferred_message")) == (0, 1)
    await switchboard(rig).release("participant", "shipping", ADA)
    assert [command.step for command in await let_go(rig)] == ["ship"]
    assert await rig.count("deferred_message") == await rig.count("held_saga") == 0


async def test_early_answers_that_an_operation_sets_free_do_not_pass_a_hold(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await rig.operations.perform("acme", reserve.saga_id, pause("p"))
    rig.handler.mode = RecoveryMode.SETTLE
    await rig.process(rig.result_record(rig.foretold("ORD-1", "charge")))
    await rig.process(rig.result_record(reserve))
    await switchboard(rig).set("participant", "shipping", ADA)
    await rig.operations.perform("acme", reserve.saga_id, resume("r"))
    assert [command.step for command in commands(await rig.read_outbox())] == ["charge"]
    assert await control(rig) == "PAUSED"
    await switchboard(rig).release("participant", "shipping", ADA)
    assert [command.step for command in await let_go(rig)] == ["ship"]


async def test_an_operators_pause_of_a_held_saga_outlives_the_release(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(reserve))
    saga, revision = reserve.saga_id, await rig.value("select revision from saga")
    with pytest.raises(StaleSnapshot):
        await rig.operations.perform("acme", saga, Pause(operation("p", expected_revision=1)))
    seen = await rig.operations.dry_run("acme", saga, pause("p"))
    assert (seen.before, seen.after, seen.commands) == ("RUNNING", "RUNNING", ())
    assert await rig.count("held_saga") == 1
    outcome = await rig.operations.perform("acme", saga, pause("p"))
    assert (outcome.revision, outcome.commands) == (revision, ())
    assert (await rig.operations.perform("acme", saga, pause("p"))).repeated
    with pytest.raises(OperationRefused):
        await rig.operations.perform("acme", saga, pause("again"))
    await switchboard(rig).release("participant", "payment", ADA)
    assert await let_go(rig) == []
    assert await control(rig) == "PAUSED"
    await rig.operations.perform("acme", saga, resume("r"))
    assert [command.step for command in commands(await rig.read_outbox())] == ["charge"]


async def test_a_dry_run_of_what_is_held_is_refused_as_the_operation_is(rig: Rig) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(reserve))
    with pytest.raises(Held):
        await rig.operations.dry_run("acme", reserve.saga_id, resume("r"))


@pytest.mark.parametrize("then", ["paused", "resumed"])
async def test_what_a_person_does_between_the_look_and_the_resume_counts(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, then: str
) -> None:
    (reserve,) = commands(await rig.process(rig.start_record()))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(rig.result_record(reserve))
    await switchboard(rig).release("participant", "payment", ADA)
    attempt = rig.operations.attempt

    async def late(*asked: Any) -> OperationOutcome:
        monkeypatch.undo()
        await rig.operations.perform("acme", reserve.saga_id, resume("r"))
        if then == "paused":
            await rig.operations.perform("acme", reserve.saga_id, pause("p"))
        return await attempt(*asked)

    monkeypatch.setattr(rig.operations, "attempt", late)
    assert [command.step for command in await let_go(rig)] == ["charge"]
    assert await control(rig) == ("PAUSED" if then == "paused" else "ACTIVE")
    assert await rig.count("operation where kind = 'resume'") == 1
    assert await rig.count("held_saga") == 0


async def test_a_hold_set_again_at_once_takes_over_and_is_released_once(rig: Rig) -> None:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(3)))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(*(rig.result_record(command) for command in commands(sent)))
    for _ in range(3):
        await switchboard(rig).release("participant", "payment", ADA)
        await switchboard(rig).set("participant", "payment", ADA)
    assert await let_go(rig) == []
    (hold,) = await switchboard(rig).list()
    assert (hold.released_at, hold.sagas) == (None, 3)
    assert await rig.count("operation") == 0
    await switchboard(rig).release("participant", "payment", ADA)
    assert [command.step for command in await let_go(rig)] == ["charge"] * 3
    assert await rig.count("operation where kind = 'resume'") == 3


async def test_killed_anywhere_a_release_resumes_each_saga_once(rig: Rig) -> None:
    sent = await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(6)))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(*(rig.result_record(command) for command in commands(sent)))
    await switchboard(rig).release("participant", "payment", ADA)
    points = ("holds.after-gone-on", "orchestrator.after-outbox", "store.commit")
    for point in (*points, "store.after-commit"):
        with failpoints.armed(f"{point}=error:57P01@2"), pytest.raises(SagabusError):
            await let_go(rig)
    await let_go(rig)
    charges = [command for command in rig.sent if isinstance(command, Command)]
    assert sorted(command.step for command in charges) == ["charge"] * 6 + ["reserve"] * 6
    assert await rig.count("operation where kind = 'resume'") == 6
    assert await rig.count("held_saga") == 0


async def test_a_saga_that_cannot_go_on_keeps_no_other_and_is_not_forgotten(rig: Rig) -> None:
    keys = [f"ORD-{n}" for n in range(3)]
    sent = await rig.process(*(rig.start_record(key) for key in keys))
    await switchboard(rig).set("participant", "payment", ADA)
    await rig.process(*(rig.result_record(command) for command in commands(sent)))
    before = await rig.break_snapshot("ORD-1")
    await switchboard(rig).release("participant", "payment", ADA)
    going_on = await let_go(rig)
    assert {command.business_key for command in going_on} == {"ORD-0", "ORD-2"}
    (hold,) = await switchboard(rig).list()
    assert hold.sagas == 1, "it still waits, and is seen"
    await rig.restore_snapshot("ORD-1", before)
    assert [command.business_key for command in await let_go(rig)] == ["ORD-1"]


async def test_a_reason_too_long_for_the_journals_is_refused_at_once(rig: Rig) -> None:
    for by in (By("ada", "x" * 901), By("a" * 129, "fire")):
        with pytest.raises(Refused) as found:
            await switchboard(rig).set("workflow", "order", by)
        assert found.value.code == "invalid_operation"
    (reserve,) = commands(await rig.process(rig.start_record()))
    longest = By("a" * 128, "x" * 900)
    await switchboard(rig).set("workflow", "order", longest, "acme")
    await rig.process(rig.result_record(reserve))
    await switchboard(rig).release("workflow", "order", longest, "acme")
    assert [command.step for command in await let_go(rig)] == ["charge"]
