"""Bulk operations over HTTP: within tenants and permissions, begun once, worked off, steered."""

from sagabus_orchestrator.bulk import BulkWorker

from .support import Api, problem


def question(**changes: object) -> dict[str, object]:
    return {
        "kind": "pause",
        "filter": {"workflow": "order"},
        "most": 100,
        "reason": "an incident",
        "operation_id": "b-1",
        **changes,
    }


async def test_a_bulk_operation_is_worked_off_within_the_callers_tenants(api: Api) -> None:
    for number in range(3):
        await api.start(f"ORD-{number}")
    await api.start("ORD-9", tenant="globex")
    seen = (await api.post("/bulk-operations/preview", question(), who="acme")).json()
    assert (seen["matching"], seen["too_large"]) == (3, False)
    begun = await api.post("/bulk-operations", question(), who="acme")
    assert begun.status_code == 202
    place = f"/bulk-operations/{begun.json()['id']}"
    again = await api.post("/bulk-operations", question(), who="acme")
    assert again.json()["id"] == begun.json()["id"]
    assert (await api.post(f"{place}/pause", {"reason": "x"}, who="acme")).json()[
        "state"
    ] == "paused"
    assert (await api.post(f"{place}/resume", {"reason": "go"})).json()["state"] == "running"
    worker = BulkWorker(api.rig.database, api.rig.operations, api.rig.watcher)
    while (await api.get(place, who="acme")).json()["state"] == "running":
        await worker.tick()
    body = (await api.get(place, who="acme")).json()
    assert (body["state"], body["done"], body["refused"]) == ("done", 3, 0)
    assert (await api.get(f"{place}/refusals", who="acme")).json()["refusals"] == []
    told = await api.rig.value(
        "select array_agg(distinct actor) from audit where kind = 'saga:pause'"
    )
    assert told == ["key:admin"], "whoever resumed it answers for it"
    other = await api.get(f"/sagas/{api.rig.saga('ORD-9', 'globex')}")
    assert other.json()["control"] == "ACTIVE"
    assert problem(await api.get(place, who="globex")) == (404, "not_found")
    assert problem(await api.post(f"{place}/cancel", {"reason": "x"}, who="acme")) == (
        409,
        "precondition_failed",
    )
    listed = (await api.get("/bulk-operations", who="globex")).json()
    assert listed == {"bulk_operations": [], "next_cursor": None}


async def test_a_bulk_operation_is_bounded(api: Api) -> None:
    await api.start("ORD-1")
    await api.start("ORD-2")
    too_large = await api.post("/bulk-operations", question(most=1))
    assert problem(too_large) == (409, "bulk_too_large")


async def test_it_takes_the_permission_of_the_operation_too(api: Api) -> None:
    assert problem(await api.post("/bulk-operations", question(), who="viewer"))[0] == 403
    refused = await api.post("/bulk-operations", question(), who="bulk-canceller")
    assert problem(refused) == (403, "permission_denied")
