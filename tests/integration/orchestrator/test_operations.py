"""Management operations: once per id, checked inside, with a dry run that writes nothing."""

import asyncio

import pytest

from sagabus_core.engine import (
    AttestedOutcome,
    Cancel,
    ManagementEvent,
    ManualClose,
    RecordOutcome,
    Retry,
)
from sagabus_core.engine.vocabulary import ForwardState
from sagabus_core.errors import OperationRefused, SagabusError, StaleSnapshot
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus
from sagabus_messages import Command
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_orchestrator.operations import Operations
from sagabus_runtime import failpoints

from .support import TABLES, TOPICS, Rig, commands, operation, pause, resume


async def halted(rig: Rig, key: str = "ORD-1") -> Command:
    (command,) = commands(await rig.process(rig.start_record(key)))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    return command


def attest(name: str, outcome: ForwardState) -> RecordOutcome:
    return RecordOutcome(operation(name), AttestedOutcome("reserve", outcome), "ticket 7", 0)


async def refusal(rig: Rig, event: ManagementEvent, *, tenant: str = "acme") -> str:
    before = {table: await rig.count(table) for table in TABLES}
    audited = await rig.count("audit where outcome = 'refused'")
    with pytest.raises(SagabusError) as found:
        await rig.operations.perform(tenant, rig.saga("ORD-1"), event)
    with pytest.raises(SagabusError) as tried:
        await rig.operations.dry_run(tenant, rig.saga("ORD-1"), event)
    assert {table: await rig.count(table) for table in TABLES} == before
    assert found.value.code == tried.value.code
    assert await rig.count("audit where outcome = 'refused'") == audited + 1
    return found.value.code


async def test_a_hundred_identical_operations_at_once_have_one_effect(rig: Rig) -> None:
    await halted(rig)
    await rig.read_outbox()
    event = Retry(operation("retry-1"))
    outcomes = await asyncio.gather(
        *(rig.operations.perform("acme", rig.saga("ORD-1"), event) for _ in range(100))
    )
    assert sum(not outcome.repeated for outcome in outcomes) == 1
    assert len({outcome.revision for outcome in outcomes}) == 1
    assert {outcome.commands for outcome in outcomes} == {("EXECUTE reserve attempt 2",)}
    (command,) = commands(await rig.read_outbox())
    assert (command.attempt, command.recovery_operation_id) == (2, "retry-1")
    assert await rig.count("operation") == 1


async def test_a_repeat_returns_the_first_outcome_whatever_became_of_the_saga(rig: Rig) -> None:
    await rig.process(rig.start_record())
    saga = rig.saga("ORD-1")
    first = await rig.operations.perform("acme", saga, pause("p"))
    await rig.operations.perform("acme", saga, resume("r"))
    again = await rig.operations.perform("acme", saga, pause("p"))
    assert again.repeated
    assert (again.revision, again.status) == (first.revision, first.status)
    assert await rig.value("select control from saga") == "ACTIVE"


async def test_an_id_that_did_something_else_is_refused(rig: Rig) -> None:
    await halted(rig)
    await rig.process(rig.start_record("ORD-2"))
    await rig.operations.perform("acme", rig.saga("ORD-2"), pause("used"))
    for event in (Retry(operation("used")), pause("used"), attest("used", ForwardState.SUCCEEDED)):
        with pytest.raises(Refused) as found:
            await rig.operations.perform("acme", rig.saga("ORD-1"), event)
        assert found.value.code == "operation_id_reused"
    saga = rig.saga("ORD-1")
    await rig.operations.perform("acme", saga, attest("a", ForwardState.SUCCEEDED))
    assert (
        await rig.operations.perform("acme", saga, attest("a", ForwardState.SUCCEEDED))
    ).repeated
    with pytest.raises(Refused):
        await rig.operations.perform("acme", saga, attest("a", ForwardState.REJECTED))


async def test_one_id_for_two_sagas_at_once_counts_once(rig: Rig) -> None:
    await rig.process(*(rig.start_record(f"ORD-{n}") for n in range(8)))
    # All of them look before any of them writes.
    with failpoints.armed("orchestrator.after-find-operation=stall:300ms"):
        outcomes = await asyncio.gather(
            *(rig.operations.perform("acme", rig.saga(f"ORD-{n}"), pause("p")) for n in range(8)),
            return_exceptions=True,
        )
    errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    assert len(errors) == 7
    assert {getattr(error, "code", str(error)) for error in errors} == {"operation_id_reused"}
    assert await rig.count("saga where control = 'PAUSED'") == 1


async def test_the_id_belongs_to_the_tenant(rig: Rig) -> None:
    await rig.process(rig.start_record(), rig.start_record(tenant="other"))
    for tenant in ("acme", "other"):
        saga = rig.saga("ORD-1", tenant=tenant)
        assert not (await rig.operations.perform(tenant, saga, pause("p"))).repeated


@pytest.mark.parametrize("delta", [-1, 1])
async def test_another_revision_than_expected_is_refused(rig: Rig, delta: int) -> None:
    await rig.process(rig.start_record())
    revision = await rig.value("select revision from saga")
    assert isinstance(revision, int)
    event = Cancel(operation("c", revision + delta))
    assert await refusal(rig, event) == "stale_snapshot"
    with pytest.raises(StaleSnapshot):
        await rig.operations.perform("acme", rig.saga("ORD-1"), event)
    await rig.operations.perform("acme", rig.saga("ORD-1"), Cancel(operation("c", revision)))


async def test_another_tenants_saga_looks_absent(rig: Rig) -> None:
    await rig.process(rig.start_record())
    assert await refusal(rig, pause("p"), tenant="evil") == "not_found"
    with pytest.raises(NotFound):
        await rig.operations.perform("acme", rig.saga("nothing"), pause("p"))


async def test_what_does_not_fit_is_refused_and_leaves_no_trace(rig: Rig) -> None:
    await rig.process(rig.start_record())
    assert await refusal(rig, resume("r")) == "precondition_failed"
    assert await refusal(rig, Retry(operation("r"))) == "precondition_failed"
    assert await refusal(rig, ManualClose(operation("c"))) == "precondition_failed"
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    assert await refusal(rig, pause("again")) == "precondition_failed"
    assert await refusal(rig, Cancel(operation("c"))) == "precondition_failed"


@pytest.mark.parametrize(
    ("name", "actor", "reason"),
    [
        ("", "ada", "why"),
        ("x" * 129, "ada", "why"),
        ("a\nb", "ada", "why"),
        ("id", "", "why"),
        ("id", "ada", "  "),
        ("id", "ada", "x" * 1_001),
    ],
)
async def test_an_operation_says_who_and_why(rig: Rig, name: str, actor: str, reason: str) -> None:
    await rig.process(rig.start_record())
    event = pause(name)
    changed = type(event)(type(event.operation)(name, actor, reason))
    assert await refusal(rig, changed) == "invalid_operation"


async def test_closing_by_hand_is_off_by_default(rig: Rig) -> None:
    await halted(rig)
    off = Operations(rig.database, TOPICS, rig.watcher)
    with pytest.raises(Refused) as found:
        await off.perform("acme", rig.saga("ORD-1"), ManualClose(operation("c")))
    assert found.value.code == "manual_close_disabled"
    done = await rig.operations.perform("acme", rig.saga("ORD-1"), ManualClose(operation("c")))
    assert done.status is SagaStatus.MANUALLY_CLOSED


async def test_a_dry_run_says_what_would_be_issued_and_writes_nothing(rig: Rig) -> None:
    await halted(rig)
    await rig.read_outbox()
    before = {table: await rig.count(table) for table in TABLES}
    revision = await rig.value("select revision from saga")
    preview = await rig.operations.dry_run("acme", rig.saga("ORD-1"), Retry(operation("r")))
    assert [(c.activation, c.phase, c.attempt) for c in preview.commands] == [
        ("reserve", Phase.EXECUTE, 2)
    ]
    assert {table: await rig.count(table) for table in TABLES} == before
    assert await rig.value("select revision from saga") == revision


async def test_a_negative_outcome_waits_for_the_fence(rig: Rig) -> None:
    await halted(rig)
    early = RecordOutcome(
        operation("a"), AttestedOutcome("reserve", ForwardState.REJECTED), "ticket 7", 60_000
    )
    with pytest.raises(OperationRefused):
        await rig.operations.perform("acme", rig.saga("ORD-1"), early)
    assert await rig.count("operation") == 0


async def test_the_fact_of_an_operation_names_actor_and_reason(rig: Rig) -> None:
    await rig.process(rig.start_record())
    await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    fact = (await rig.facts("ORD-1"))[-1]
    told = {name: fact[name] for name in ("trigger_kind", "trigger_id", "actor", "reason")}
    assert told == {
        "trigger_kind": "operation",
        "trigger_id": "p",
        "actor": "ada",
        "reason": "because",
    }
