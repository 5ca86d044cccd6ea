"""Definitions while sagas run: scopes, retiring against starting, replicas that miss one."""

import asyncio
import json

import pytest

from sagabus_expressions import CelConditions
from sagabus_messages import START_REFUSED, Lifecycle
from sagabus_orchestrator.catalog import CatalogWatcher
from sagabus_orchestrator.desk import Desk
from sagabus_orchestrator.entry import Scene
from sagabus_orchestrator.errors import OrphanedInstances, Refused
from sagabus_orchestrator.works import read_batch
from sagabus_testkit import eventually

from .support import TOPICS, Rig, commands, lifecycle, order

WAITING = "select count(*) from pg_stat_activity where wait_event_type = 'Lock'"


def own(version: int = 1) -> dict[str, object]:
    """Return a definition of a single tenant, whose start takes another payload."""
    start = {"content_type": "application/json", "schema_id": "own.v1", "set": {"sku": "/sku"}}
    return {**order(version, tenant="acme"), "input": start}


async def start(rig: Rig, key: str, tenant: str, schema: str, version: int | None = None) -> str:
    record = rig.start_record(key, tenant=tenant, schema=schema, version=version)
    event: Lifecycle = lifecycle(await rig.process(record))[0]
    return event.reason_code or str(event.status)


async def test_a_tenants_own_definition_hides_the_global_one_once_it_was_activated(
    rig: Rig,
) -> None:
    published = await rig.registry.publish(_bytes(own()))
    await rig.watcher.refresh()
    assert await start(rig, "A", "acme", "order.v1") == "RUNNING", "a draft hides nothing"
    await rig.publish(own())  # type: ignore[arg-type]  # JSON
    assert await start(rig, "B", "acme", "order.v1") == "payload_contract_mismatch"
    assert await start(rig, "B", "acme", "own.v1") == "RUNNING"
    assert await start(rig, "A", "other", "order.v1") == "RUNNING"
    await rig.registry.deprecate(published.ref)
    assert await start(rig, "C", "acme", "own.v1") == "definition_inactive"
    assert await start(rig, "C", "acme", "own.v1", version=1) == "RUNNING"


async def test_retiring_waits_for_a_start_under_way_and_then_sees_it(rig: Rig) -> None:
    (ref,) = rig.watcher.current.definitions
    intake = read_batch([rig.start_record()], TOPICS, now_ms=rig.now_ms(), window_ms=10**9)
    async with rig.database.transaction() as conn:
        await Desk(conn, Scene(TOPICS, 0), rig.watcher.current).settle(intake)
        retiring = asyncio.create_task(rig.registry.retire(ref))
        await eventually(lambda: rig.value(WAITING))
        assert not retiring.done()
    with pytest.raises(Refused) as refused:
        await retiring
    assert refused.value.code == "definition_in_use"
    assert await start(rig, "ORD-2", "acme", "order.v1") == "RUNNING"


async def test_a_start_that_waited_for_a_retirement_is_refused(rig: Rig) -> None:
    (ref,) = rig.watcher.current.definitions
    await rig.registry.retire(ref)
    assert rig.watcher.current.get(ref) is not None, "this replica has seen nothing yet"
    (event,) = lifecycle(await rig.process(rig.start_record()))
    assert (event.status, event.reason_code) == (START_REFUSED, "definition_inactive")


@pytest.mark.parametrize(
    "damage",
    ["delete from definition", "update definition set digest = repeat('0', 64)"],
    ids=["missing", "other-digest"],
)
async def test_trap_08_a_replica_without_the_definition_of_a_running_saga_is_not_ready(
    rig: Rig, damage: str
) -> None:
    sent = await rig.process(rig.start_record())
    kept = await rig.value("select to_json(d)::text from definition d")
    bump = "update definition_generation set generation = generation + 1"
    await rig.run(damage)
    await rig.run(bump)

    with pytest.raises(OrphanedInstances):  # at start-up
        await CatalogWatcher(rig.database, CelConditions()).refresh()
    with pytest.raises(OrphanedInstances):  # at a switch
        await rig.watcher.refresh()
    assert "order 1" in str(await rig.watcher.problem())

    await rig.run("delete from definition")
    await rig.run(
        "insert into definition select * from json_populate_record(null::definition, $1)", kept
    )
    await rig.run(bump)
    await rig.watcher.refresh()
    assert await rig.watcher.problem() is None
    assert len(commands(await rig.process(rig.result_record(commands(sent)[0])))) == 1


async def test_the_definition_of_an_ended_saga_may_go(rig: Rig) -> None:
    await rig.process(rig.start_record())
    await rig.run("update saga set status = 'COMPLETED'")
    await rig.run("delete from definition")
    await CatalogWatcher(rig.database, CelConditions()).refresh()


def _bytes(document: dict[str, object]) -> bytes:
    return json.dumps(document).encode()
