"""Definitions: published for ever, activated with their topics, retired when nothing runs."""

import asyncio
from collections.abc import Iterable

import pytest

from sagabus_core.canonical import canonical_bytes
from sagabus_core.definitions import DefinitionState, InvalidDefinition
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.errors import NotFound, OrphanedInstances, Refused
from sagabus_runtime import failpoints
from sagabus_testkit import eventually

from .support import Rig, commands, lifecycle, no_topics_missing, open_rig, order

V1 = DefinitionRef("", "order", 1)


async def refused(rig: Rig, code: str, state: str, ref: DefinitionRef = V1) -> None:
    with pytest.raises((Refused, NotFound)) as found:
        await getattr(rig.registry, state)(ref, *([no_topics_missing] * (state == "activate")))
    assert found.value.code == code


async def test_publishing_again_changes_nothing_and_other_content_is_refused(rig: Rig) -> None:
    again = await rig.registry.publish(canonical_bytes(order()))
    assert (again.ref, again.state) == (V1, DefinitionState.ACTIVE)
    other = order()
    other["variables"] = {"sku": "string", "note": "string"}
    with pytest.raises(Refused) as conflict:
        await rig.registry.publish(canonical_bytes(other))
    assert conflict.value.code == "definition_conflict"


async def test_an_invalid_or_large_document_is_never_stored(empty_rig: Rig) -> None:
    with pytest.raises(InvalidDefinition):
        await empty_rig.registry.publish(canonical_bytes({"workflow": "order", "version": 1}))
    with pytest.raises(Refused) as large:
        await empty_rig.registry.publish(b" " * (256 * 1024 + 1))
    assert large.value.code == "definition_too_large"
    assert await empty_rig.count("definition") == 0


async def test_a_definition_is_not_active_until_its_topics_exist(empty_rig: Rig) -> None:
    async def missing(topics: Iterable[str]) -> Iterable[str]:
        return [topic for topic in topics if "payment" in topic]

    await empty_rig.registry.publish(canonical_bytes(order()))
    with pytest.raises(Refused) as found:
        await empty_rig.registry.activate(V1, missing)
    assert found.value.code == "topics_missing"
    assert "sagabus.command.payment.v1" in found.value.detail
    assert (await empty_rig.registry.get(V1)).state is DefinitionState.DRAFT


async def test_a_draft_starts_nothing_and_asks_for_no_topics(empty_rig: Rig) -> None:
    await empty_rig.registry.publish(canonical_bytes(order()))
    await empty_rig.watcher.refresh()
    assert empty_rig.watcher.current.participants == frozenset()
    (event,) = lifecycle(await empty_rig.process(empty_rig.start_record()))
    assert event.reason_code == "definition_inactive"
    await empty_rig.registry.activate(V1, no_topics_missing)
    await empty_rig.watcher.refresh()
    assert empty_rig.watcher.current.participants == {"inventory", "payment", "shipping"}


async def test_a_deprecated_version_starts_only_by_name(rig: Rig) -> None:
    await rig.registry.deprecate(V1)
    sent = await rig.process(rig.start_record("A"), rig.start_record("B", version=1))
    assert {event.business_key: event.reason_code for event in lifecycle(sent)} == {
        "A": "definition_inactive",
        "B": None,
    }


async def test_a_version_is_retired_only_when_nothing_runs_on_it(rig: Rig) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    await refused(rig, "definition_in_use", "retire")
    sent = await rig.process(rig.result_record(command))
    while found := commands(sent):
        sent = await rig.process(*(rig.result_record(command) for command in found))
    await rig.registry.retire(V1)
    await refused(rig, "precondition_failed", "activate")
    await refused(rig, "precondition_failed", "deprecate")
    # Late evidence of the ended saga is still taken, and a repeat of its start still answered.
    sent = await rig.process(rig.start_record(), rig.start_record("ORD-2", version=1))
    assert {event.business_key: event.reason_code for event in lifecycle(sent)} == {
        "ORD-1": None,
        "ORD-2": "definition_inactive",
    }


async def test_unknown_definitions_are_not_found(rig: Rig) -> None:
    for state in ("activate", "deprecate", "retire"):
        await refused(rig, "not_found", state, DefinitionRef("", "order", 9))


async def test_retiring_waits_for_a_start_in_flight(rig: Rig) -> None:
    with failpoints.armed("orchestrator.after-hold-starts=stall:300ms"):
        start = asyncio.create_task(rig.handler.process([rig.start_record()]))
        # Behind this point the start holds its definition; before it, retiring would come first.
        await eventually(lambda: failpoints.hits("orchestrator.after-hold-starts") == 1)
        await refused(rig, "definition_in_use", "retire")
        await start
    assert await rig.count("saga") == 1


async def test_a_start_never_gets_a_version_that_was_retired_meanwhile(rig: Rig) -> None:
    stale = rig.watcher.current
    await rig.registry.retire(V1)
    assert rig.watcher.current is stale
    (event,) = lifecycle(await rig.process(rig.start_record()))
    assert event.reason_code == "definition_inactive"
    assert await rig.count("saga") == 0


async def test_a_tenant_with_its_own_definition_never_gets_the_global_one(rig: Rig) -> None:
    await rig.publish({**order(7), "tenant": "acme"})
    sent = await rig.process(rig.start_record(), rig.start_record(tenant="other"))
    assert {event.tenant: event.definition_version for event in lifecycle(sent)} == {
        "acme": 7,
        "other": 1,
    }


async def test_a_replica_without_a_needed_definition_is_not_ready_and_recovers(
    rig: Rig, prepared: str
) -> None:
    await rig.process(rig.start_record())
    row = "('', 'order', 1, $1, $2, 'ACTIVE')"
    document = (await rig.registry.get(V1)).document
    digest = (await rig.registry.get(V1)).digest
    await rig.run("delete from definition")
    await rig.run("update definition_generation set generation = generation + 1")
    with pytest.raises(OrphanedInstances, match="order 1"):
        await open_rig(prepared)
    with pytest.raises(OrphanedInstances):
        await rig.watcher.refresh()
    assert "order 1" in (await rig.watcher.problem() or "")

    columns = "scope, workflow, version, digest, document, state"
    await rig.run(f"insert into definition ({columns}) values {row}", digest, document)
    await rig.watcher.refresh()
    assert await rig.watcher.problem() is None


async def test_a_definition_of_a_newer_release_makes_the_replica_not_ready(rig: Rig) -> None:
    columns = "scope, workflow, version, digest, document, state"
    await rig.run(
        f"insert into definition ({columns}) values ('', 'new', 1, 'd', $1, 'ACTIVE')",
        b'{"workflow":"new","from":"the future"}',
    )
    await rig.run("update definition_generation set generation = generation + 1")
    with pytest.raises(OrphanedInstances) as found:
        await rig.watcher.refresh()
    assert (found.value.code, found.value.retryable) == ("definition_unreadable", True)
    assert await rig.watcher.problem() is not None
    await rig.run("delete from definition where workflow = 'new'")


async def test_changes_at_once_are_made_one_after_the_other(rig: Rig) -> None:
    outcomes = await asyncio.gather(
        *(rig.registry.publish(canonical_bytes(order(2))) for _ in range(5)),
        *(rig.registry.deprecate(V1) for _ in range(5)),
        return_exceptions=True,
    )
    assert not [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
    states = {published.ref.version: published.state for published in await rig.registry.list()}
    assert states == {1: DefinitionState.DEPRECATED, 2: DefinitionState.DRAFT}
