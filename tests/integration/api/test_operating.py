"""Operations over HTTP: once per id, by permission, dry runs, and the evidence of refusals."""

import asyncio

from tests.integration.orchestrator.support import Rig, commands

from sagabus_core.vocabulary import ResultStatus
from sagabus_messages import Command

from .support import Api, problem


async def halted(api: Api, key: str = "ORD-1") -> Command:
    await api.start(key)
    (command,) = commands(await api.rig.read_outbox())
    await api.rig.process(api.rig.result_record(command, ResultStatus.HALTED))
    return command


async def audit(rig: Rig) -> list[tuple[str, str, str]]:
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select kind, actor, code from audit order by seq")
    return [(row["kind"], row["actor"], row["code"]) for row in rows]


async def test_pause_and_resume(api: Api) -> None:
    await api.start()
    done = (await api.operate("pause", operation_id="p-1")).json()
    assert (done["kind"], done["status"], done["revision"]) == ("pause", "RUNNING", 2)
    assert (await api.get(f"/sagas/{api.rig.saga('ORD-1')}")).json()["control"] == "PAUSED"
    assert problem(await api.operate("pause")) == (409, "precondition_failed")
    assert (await api.operate("resume")).status_code == 200


async def test_a_hundred_identical_operations_have_one_effect(api: Api) -> None:
    await halted(api)
    await api.rig.read_outbox()
    responses = await asyncio.gather(
        *(api.operate("retry", operation_id="r-1") for _ in range(100))
    )
    assert {response.status_code for response in responses} == {200}
    bodies = [response.json() for response in responses]
    assert sum(not body["repeated"] for body in bodies) == 1
    assert len({body["revision"] for body in bodies}) == 1
    assert len(commands(await api.rig.read_outbox())) == 1


async def test_a_dry_run_says_what_would_happen_and_writes_nothing(api: Api) -> None:
    await api.start()
    (command,) = commands(await api.rig.read_outbox())
    await api.rig.process(api.rig.result_record(command))
    before = await api.rig.count("journal")
    seen = (await api.operate("cancel", dry_run=True)).json()
    assert (seen["dry_run"], seen["before"], seen["revision"]) == (True, "RUNNING", None)
    assert await api.rig.count("journal") == before
    assert await api.rig.count("operation") == 0


async def test_an_expected_revision_that_has_passed_is_refused(api: Api) -> None:
    await api.start()
    assert problem(await api.operate("pause", expected_revision=7)) == (412, "stale_snapshot")


async def test_an_operation_id_names_one_operation(api: Api) -> None:
    await api.start()
    await api.operate("pause", operation_id="o-1")
    assert problem(await api.operate("resume", operation_id="o-1")) == (409, "operation_id_reused")


async def test_an_outcome_is_attested(api: Api) -> None:
    await halted(api)
    wrong = await api.operate(
        "record-outcome",
        evidence="ticket 7",
        attestation={"kind": "branch", "choice": "reserve", "branch": "left"},
    )
    assert problem(wrong)[0] in {409, 422}
    done = await api.operate(
        "record-outcome",
        evidence="ticket 7",
        attestation={"kind": "outcome", "activation": "reserve", "outcome": "SUCCEEDED"},
    )
    assert done.json()["status"] == "RUNNING"
    assert done.json()["commands"] == ["EXECUTE charge attempt 1"]


async def test_what_is_issued_again_takes_its_own_permission(api: Api) -> None:
    await api.start()
    (reserve,) = commands(await api.rig.read_outbox())
    (charge,) = commands(await api.rig.process(api.rig.result_record(reserve)))
    (undo,) = commands(await api.rig.process(api.rig.result_record(charge, ResultStatus.REJECTED)))
    await api.rig.process(api.rig.result_record(undo, ResultStatus.HALTED))
    refused = await api.operate("retry", who="step-retrier")
    assert problem(refused) == (403, "permission_denied")
    assert "retry-compensation" in refused.json()["detail"]
    foreseen = await api.operate("retry", who="step-retrier", dry_run=True)
    assert problem(foreseen) == (403, "permission_denied"), "a dry run tells no more than may be"
    assert (await api.operate("retry", dry_run=True)).status_code == 200
    assert (await api.operate("retry")).status_code == 200


async def test_permission_and_tenancy_before_existence(api: Api) -> None:
    await api.start()
    assert problem(await api.operate("pause", who="viewer")) == (403, "permission_denied")
    assert problem(await api.operate("pause", "ORD-9", who="viewer")) == (403, "permission_denied")
    assert problem(await api.operate("pause", who="globex")) == (404, "not_found")
    assert problem(await api.operate("pause", "ORD-9", who="globex")) == (404, "not_found")


async def test_who_wanted_what_they_may_not_stands_in_the_audit(api: Api) -> None:
    await api.start()
    before = len(await audit(api.rig))
    await api.operate("pause", who="viewer")
    assert (await audit(api.rig))[before:] == [("saga:pause", "key:viewer", "permission_denied")]
    rows = (await api.get("/audit", kind="saga:pause", outcome="refused")).json()["rows"]
    assert rows[-1]["actor"] == "key:viewer"


async def test_definitions_are_published_and_steered(api: Api) -> None:
    from tests.integration.orchestrator.support import order  # noqa: PLC0415

    document = order(2)
    published = await api.post("/definitions", document)
    assert (published.status_code, published.json()["state"]) == (201, "DRAFT")
    assert problem(await api.start("ORD-2", definition_version=2)) == (409, "definition_inactive")
    place = "/definitions/order/2"
    assert (await api.post(f"{place}/activate", {})).json()["state"] == "ACTIVE"
    assert (await api.start("ORD-2")).json()["definition_version"] == 2
    assert problem(await api.post(f"{place}/retire", {})) == (409, "definition_in_use")
    assert (await api.post(f"{place}/deprecate", {"reason": "old"})).json()["state"] == "DEPRECATED"
    assert (await api.get(place)).json()["document"] == document
    assert (await api.get(f"{place}/graph")).text.startswith("flowchart TD")
    listed = (await api.get("/definitions", who="globex")).json()["definitions"]
    assert [(each["version"], each["tenant"]) for each in listed] == [(1, None), (2, None)]


async def test_definitions_for_all_tenants_are_not_one_tenants_to_change(api: Api) -> None:
    from tests.integration.orchestrator.support import order  # noqa: PLC0415

    assert problem(await api.post("/definitions", order(2), who="acme"))[0] == 403
    own = await api.post("/definitions", order(1, tenant="acme"), who="acme")
    assert own.json()["tenant"] == "acme"
    hidden = await api.get("/definitions/order/1", tenant="acme", who="globex")
    assert problem(hidden) == (404, "not_found")
    steered = await api.post("/definitions/order/1/retire", {"tenant": "acme"}, who="globex")
    assert problem(steered) == (404, "not_found")


async def test_every_broken_rule_of_a_definition_is_named(api: Api) -> None:
    refused = await api.post("/definitions", {"workflow": "x", "version": 0})
    assert problem(refused) == (422, "invalid_definition")
    assert len(refused.json()["errors"]) > 1


async def test_quotas_are_read_set_and_removed(api: Api) -> None:
    assert (await api.get("/quotas/acme")).json()["limits"] == []
    await api.start()
    place, headers = "/v1/quotas/acme/running", {"x-api-key": "admin"}
    put = await api.client.put(place, json={"most": 1}, headers=headers)
    (limit,) = put.json()["limits"]
    assert (limit["action"], limit["most"], limit["used"]) == ("running", 1, 1)
    assert problem(await api.start("ORD-2")) == (429, "tenant_quota_exceeded")
    assert problem(await api.get("/quotas/acme", who="globex")) == (404, "not_found")
    await api.client.delete(place, headers=headers)
    assert (await api.start("ORD-2")).status_code == 201


async def test_rates_limit_starts_and_operations(api: Api) -> None:
    headers, a_day = {"x-api-key": "admin"}, 86_400_000
    for action in ("start", "operation"):
        body = {"most": 1, "window_ms": a_day}
        await api.client.put(f"/v1/quotas/acme/{action}", json=body, headers=headers)
    assert (await api.start()).status_code == 201
    assert problem(await api.start("ORD-2")) == (429, "rate_limit_exceeded")
    assert (await api.operate("pause")).status_code == 200
    limited = await api.operate("resume")
    assert problem(limited) == (429, "rate_limit_exceeded")
    assert limited.headers["retry-after"] == "1"
