"""The audit: what was done with its effect, what was refused after it, and no flood of either."""

import asyncio
from typing import Any

import pytest

from sagabus_core.canonical import canonical_bytes
from sagabus_core.engine import Cancel, Retry
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import ResultStatus
from sagabus_orchestrator.app import COMPONENTS
from sagabus_orchestrator.audit import Act, By, Trail
from sagabus_orchestrator.audit.trail import REFUSALS_PER_MINUTE
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.errors import NotFound, Refused
from sagabus_runtime import failpoints
from sagabus_store import StoreUnavailable
from sagabus_store.roles import grant

from .support import Rig, Shell, commands, no_topics_missing, operation, order, pause

ADA = By("ada", "a ticket")
V1 = DefinitionRef("", "order", 1)


async def rows(rig: Rig, kind: str = "") -> list[dict[str, Any]]:
    async with rig.database.connection() as conn:
        found = await conn.fetch("select * from audit where kind like $1 order by seq", f"{kind}%")
    return [dict(row) for row in found]


async def test_an_operation_is_recorded_with_actor_right_reason_and_outcome(rig: Rig) -> None:
    await rig.process(rig.start_record())
    revision = await rig.value("select revision from saga")
    assert isinstance(revision, int)
    event = Cancel(operation("c", revision))
    for _ in range(3):
        await rig.operations.perform("acme", rig.saga("ORD-1"), event)
    (row,) = await rows(rig, "saga:")
    assert str(row["saga_id"]) == row["subject"] == rig.saga("ORD-1")
    told = ("kind", "actor", "permission", "tenant", "workflow", "operation_id", "reason")
    assert [row[name] for name in told] == [
        *("saga:cancel", "ada", "saga:cancel", "acme", "order", "c", "because")
    ]
    assert (row["outcome"], row["code"], row["expected"]) == ("done", "", str(revision))
    assert row["detail"] == f"CANCELLING, revision {revision + 1}, issued CANCEL reserve attempt 1"


async def test_a_retry_names_the_right_by_what_it_issues_again(rig: Rig) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    await rig.process(rig.result_record(command, ResultStatus.HALTED))
    asked: list[frozenset[str]] = []

    def deny(permissions: frozenset[str]) -> None:
        asked.append(permissions)
        raise Refused("permission_denied", "not yours")

    with pytest.raises(Refused):
        await rig.operations.perform("acme", rig.saga("ORD-1"), Retry(operation("r")), deny)
    await rig.operations.perform("acme", rig.saga("ORD-1"), Retry(operation("r")), asked.append)
    assert asked == [frozenset({"retry_step"})] * 2
    told = [(row["permission"], row["outcome"], row["code"]) for row in await rows(rig, "saga:")]
    assert told == [("saga:retry", "refused", "permission_denied"), ("saga:retry-step", "done", "")]


async def test_effect_and_row_are_durable_together_or_not_at_all(rig: Rig) -> None:
    await rig.process(rig.start_record())
    with failpoints.armed("orchestrator.after-audit=error:57P01"), pytest.raises(SagabusError):
        await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    assert await rows(rig, "saga:") == []
    assert await rig.value("select control from saga") == "ACTIVE"


async def test_a_refusal_is_recorded_and_an_outage_is_none(rig: Rig) -> None:
    with pytest.raises(NotFound):
        await rig.operations.perform("evil", rig.saga("ORD-1"), pause("p"))
    (row,) = await rows(rig, "saga:")
    assert (row["tenant"], row["outcome"], row["code"]) == ("evil", "refused", "not_found")
    with failpoints.armed("orchestrator.after-lock=error:57P01"), pytest.raises(SagabusError):
        await rig.operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    assert len(await rows(rig, "saga:")) == 1


async def test_definitions_and_quotas_are_audited_once_per_change(empty_rig: Rig) -> None:
    registry = empty_rig.registry
    for _ in range(2):
        await registry.publish(canonical_bytes(order()), ADA)
        await registry.activate(V1, no_topics_missing, ADA)
    await registry.deprecate(V1, ADA)
    for version, code in ((9, "not_found"), (1, "definition_conflict")):
        with pytest.raises((Refused, NotFound)) as found:
            if version == 9:
                await registry.retire(DefinitionRef("", "order", 9), ADA)
            else:
                await registry.publish(canonical_bytes(order(variables={"sku": "json"})), ADA)
        assert found.value.code == code
    await registry.retire(V1, ADA)
    await empty_rig.tenants.set_quota("acme", 5, ADA)
    assert await empty_rig.tenants.remove_quota("acme", ADA)
    told = [(row["kind"], row["subject"], row["outcome"]) for row in await rows(empty_rig)]
    assert told == [
        ("definition:publish", "order 1", "done"),
        ("definition:activate", "order 1", "done"),
        ("definition:deprecate", "order 1", "done"),
        ("definition:retire", "order 9", "refused"),
        ("definition:publish", "order 1", "refused"),
        ("definition:retire", "order 1", "done"),
        ("quota:set", "acme", "done"),
        ("quota:set", "acme", "done"),
    ]
    assert {row["actor"] for row in await rows(empty_rig)} == {"ada"}


async def test_a_flood_of_refusals_is_counted_and_starves_nobody(rig: Rig) -> None:
    trail, denied = Trail(rig.database), Refused("permission_denied", "not yours")
    flood = Act(kind="saga:cancel", by=By("mallory"), subject="x", tenant="acme")
    other = next(
        act
        for n in range(100)
        if (act := Act(kind="saga:cancel", by=By(f"bob-{n}"), subject="x")).bucket != flood.bucket
    )
    extra = 20
    asked = [trail.refused(flood, denied) for _ in range(REFUSALS_PER_MINUTE + extra)]
    written = await asyncio.gather(*asked)
    assert sum(written) == REFUSALS_PER_MINUTE
    assert await trail.withheld() == extra
    assert await trail.refused(other, denied)
    assert not await trail.refused(flood, denied)
    await rig.run("update refusal_budget set window_at = window_at - interval '2 minutes'")
    assert await trail.refused(flood, denied)
    found = await rows(rig, "saga:")
    assert len(found) == REFUSALS_PER_MINUTE + 2
    assert found[-1]["withheld"] == extra + 1
    assert await trail.withheld() == 0


async def test_what_somebody_sent_fits_the_table(rig: Rig) -> None:
    act = Act(kind="saga:cancel", by=By("\0" + "x" * 9_000, "y" * 9_000, "z" * 9_000), subject="s")
    assert await Trail(rig.database).refused(act, Refused("invalid_operation", "\ud800" * 2_000))
    (row,) = await rows(rig, "saga:")
    assert (len(row["actor"]), len(row["reason"]), len(row["detail"])) == (256, 1_000, 1_000)


async def test_a_refusal_that_cannot_be_written_is_still_a_refusal(rig: Rig) -> None:
    await rig.run("alter table audit rename to audit_gone")
    try:
        with pytest.raises(NotFound):
            await rig.operations.perform("acme", rig.saga("nothing"), pause("p"))
    finally:
        await rig.run("alter table audit_gone rename to audit")


@pytest.mark.parametrize("statement", ["update audit set actor = 'x'", "delete from audit"])
async def test_the_role_of_the_process_cannot_change_the_audit(rig: Rig, statement: str) -> None:
    with pytest.raises(StoreUnavailable, match="permission denied"):
        async with rig.database.transaction() as conn:
            await conn.execute("create role app_of_audit")
            await grant(conn, COMPONENTS, profile="app", role="app_of_audit")
            await conn.execute("set local role app_of_audit")
            await conn.execute(statement)


async def test_the_command_lists_filters_and_pages(
    shell: Shell, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SAGABUS_ACTOR", "grace")
    await rig.process(rig.start_record())
    await shell("pause", "ORD-1", "--reason", "look")
    await shell("pause", "ORD-1", "--reason", "look", code=4)
    await shell("definitions", "deprecate", "order", "1", "--reason", "old")
    mine = ("audit", "list", "--where", "actor=grace")
    said = await shell(*mine)
    told = [(row["kind"], row["outcome"], row["reason"]) for row in said["rows"]]
    assert told == [
        ("saga:pause", "done", "look"),
        ("saga:pause", "refused", "look"),
        ("definition:deprecate", "done", "old"),
    ]
    first = await shell(*mine, "--limit", "1")
    rest = await shell(*mine, "--cursor", first["cursor"])
    assert first["rows"] + rest["rows"] == said["rows"]
    assert (first["more"], rest["more"]) == (True, False)
    refused = await shell("audit", "list", "--where", "outcome=refused")
    assert [row["code"] for row in refused["rows"]] == ["precondition_failed"]
    assert (await shell("audit", "list", "--where", "outcome=no", code=2))["error"][
        "code"
    ] == "usage"
    assert (await shell("audit", "list", "--cursor", "!", code=2))["error"]["code"] == (
        "invalid_cursor"
    )
