"""Holds over HTTP: who may set which, what is seen of them, and what they do to sagas."""

import httpx
from tests.integration.orchestrator.support import commands

from sagabus_orchestrator.releaser import Releaser

from .support import Api, problem

PAYMENT = "/holds/participant/payment"
WHY = {"reason": "it is on fire"}
OF_ACME = {**WHY, "tenant": "acme"}


async def hold(api: Api, body: object, place: str = PAYMENT, who: str = "admin") -> httpx.Response:
    return await api.client.put(f"/v1{place}", json=body, headers={"x-api-key": who})


async def holds(api: Api, who: str = "admin") -> list[dict[str, object]]:
    found: list[dict[str, object]] = (await api.get("/holds", who=who)).json()["holds"]
    return found


async def test_what_is_held_waits_until_it_is_released(api: Api) -> None:
    await api.start()
    (reserve,) = commands(await api.rig.read_outbox())
    assert (await hold(api, OF_ACME)).status_code == 200
    assert commands(await api.rig.process(api.rig.result_record(reserve))) == []
    (held,) = await holds(api)
    assert (held["target"], held["name"], held["tenant"], held["sagas"]) == (
        *("participant", "payment", "acme", 1),
    )
    released = await api.post(f"{PAYMENT}/release", {**OF_ACME, "reason": "mended"})
    assert (released.status_code, released.content) == (204, b"")
    assert [each["released_at"] is not None for each in await holds(api)] == [True]
    await api.rig.run("update upkeep_job set due_at = 'epoch'")
    await Releaser(api.rig.database, api.rig.operations).tick()
    assert [each.step for each in commands(await api.rig.read_outbox())] == ["charge"]
    assert await holds(api) == []


async def test_a_start_that_would_issue_what_is_held_is_refused(api: Api) -> None:
    await hold(api, OF_ACME, "/holds/workflow/order")
    assert problem(await api.start()) == (409, "issuing_held")
    await api.post("/holds/workflow/order/release", OF_ACME)
    assert (await api.start()).status_code == 201


async def test_the_same_hold_again_changes_nothing(api: Api) -> None:
    first, again = [(await hold(api, OF_ACME)).json() for _ in range(2)]
    assert first == again
    assert (await api.post(f"{PAYMENT}/release", OF_ACME)).status_code == 204
    assert problem(await api.post(f"{PAYMENT}/release", OF_ACME)) == (404, "not_found")


async def test_a_hold_of_all_tenants_takes_the_right_to_all(api: Api) -> None:
    assert problem(await hold(api, WHY, who="acme")) == (403, "permission_denied")
    assert (await hold(api, WHY)).status_code == 200
    refused = await api.post(f"{PAYMENT}/release", WHY, who="acme")
    assert problem(refused) == (403, "permission_denied")


async def test_holds_of_others_look_absent(api: Api) -> None:
    await hold(api, WHY)
    await hold(api, OF_ACME)
    seen = {who: [(h["tenant"], h["sagas"]) for h in await holds(api, who)] for who in ("globex",)}
    assert seen == {"globex": [(None, None)]}, "of all tenants, but not how many sagas it paused"
    told = [
        [(h["actor"], h["reason"]) for h in await holds(api, who)] for who in ("globex", "acme")
    ]
    assert told == [
        [("platform", "held by the platform")],
        [("platform", "held by the platform"), ("key:admin", "it is on fire")],
    ]
    assert {h["actor"] for h in await holds(api)} == {"key:admin"}
    hidden = await api.post(f"{PAYMENT}/release", OF_ACME, who="globex")
    assert problem(hidden) == (404, "not_found")
    assert len(await holds(api)) == 2


async def test_a_hold_needs_a_reason_and_stands_in_the_audit(api: Api) -> None:
    for reason in ("", " "):
        assert problem(await hold(api, {"reason": reason}))[0] == 400
    await hold(api, OF_ACME)
    (row,) = (await api.get("/audit", kind="pause:set", outcome="done")).json()["rows"]
    assert (row["actor"], row["reason"], row["tenant"]) == ("key:admin", "it is on fire", "acme")
