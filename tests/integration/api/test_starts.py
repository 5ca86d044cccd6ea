"""Starts over HTTP: one saga per key, one answer per request key, on the path of Kafka's starts."""

import asyncio
from collections import Counter

import httpx
from tests.integration.orchestrator.support import Rig, commands, lifecycle, open_rig

from sagabus_messages import START_REFUSED
from sagabus_runtime import failpoints

from .support import Api, open_api, problem, start_body


async def test_a_start_makes_a_saga_with_its_first_command(api: Api) -> None:
    response = await api.start(request_key="r-1")
    assert response.status_code == 201
    saga_id = api.rig.saga("ORD-1")
    assert response.headers["location"] == f"/v1/sagas/{saga_id}"
    body = response.json()
    assert (body["saga_id"], body["status"], body["created"]) == (saga_id, "RUNNING", True)
    sent = await api.rig.read_outbox()
    assert [command.activation for command in commands(sent)] == ["reserve"]
    (event,) = lifecycle(sent)
    assert (event.status, event.start_id) == ("RUNNING", body["start_id"])


async def test_the_same_request_again_is_answered_again_and_tells_nobody(api: Api) -> None:
    first = await api.start(request_key="r-1")
    await api.rig.read_outbox()
    again = await api.start(request_key="r-1")
    assert again.status_code == 200
    assert again.json() == {**first.json(), "created": False}
    assert await api.rig.read_outbox() == []


async def test_the_same_key_with_another_body_is_refused(api: Api) -> None:
    await api.start(request_key="r-1")
    other = await api.start("ORD-2", request_key="r-1")
    assert problem(other) == (409, "idempotency_key_reused")
    assert await api.rig.count("saga") == 1


async def test_request_keys_of_tenants_do_not_meet(api: Api) -> None:
    assert (await api.start(request_key="r-1")).status_code == 201
    assert (await api.start(request_key="r-1", tenant="globex")).status_code == 201


async def test_a_business_key_never_starts_twice_whatever_the_request_key(api: Api) -> None:
    await api.start(request_key="r-1")
    assert (await api.start(request_key="r-2")).status_code == 200
    assert (await api.start()).status_code == 200
    conflict = await api.start(request_key="r-3", deadline_at="2099-01-01T00:00:00.000Z")
    assert problem(conflict) == (409, "request_conflict")
    assert "deadline_at" in conflict.json()["detail"]


async def test_a_refused_start_may_be_sent_again_under_its_key(api: Api) -> None:
    await api.rig.set_quota("acme", 0)
    assert problem(await api.start(request_key="r-1")) == (429, "tenant_quota_exceeded")
    (told,) = lifecycle(await api.rig.read_outbox())
    assert (told.status, told.reason_code) == (START_REFUSED, "tenant_quota_exceeded")
    await api.rig.set_quota("acme", 1)
    assert (await api.start(request_key="r-1")).status_code == 201


async def test_refusals_have_the_codes_of_the_start_topic(api: Api) -> None:
    assert problem(await api.start(workflow="none")) == (404, "definition_unknown")
    assert problem(await api.start(definition_version=7)) == (404, "definition_unknown")
    payload = {"content_type": "application/json", "schema_id": "other.v1", "data": {}}
    assert problem(await api.start(payload=payload)) == (422, "payload_contract_mismatch")


async def test_the_data_is_stored_as_it_was_written(api: Api) -> None:
    # A number that a parser would shorten, told apart by the digest of the exact text.
    def body(amount: str) -> str:
        return (
            '{"tenant": "acme", "workflow": "order", "business_key": "ORD-1", "payload": '
            '{"content_type": "application/json", "schema_id": "order.v1", "data": '
            f'{{"sku": "widget", "amount": {amount}}}}}}}'
        )

    headers = {"x-api-key": "admin", "content-type": "application/json"}
    first = await api.client.post("/v1/sagas", content=body("12.50"), headers=headers)
    assert first.status_code == 201
    same = await api.client.post("/v1/sagas", content=body("12.50"), headers=headers)
    assert same.status_code == 200
    other = await api.client.post("/v1/sagas", content=body("12.5"), headers=headers)
    assert problem(other) == (409, "request_conflict")


def outcomes(responses: list[httpx.Response]) -> Counter[int]:
    return Counter(response.status_code for response in responses)


async def test_a_hundred_equal_starts_at_once_make_one_saga(api: Api) -> None:
    responses = await asyncio.gather(*(api.start(request_key="r-1") for _ in range(100)))
    assert outcomes(responses) == {201: 1, 200: 99}
    assert len({response.json()["start_id"] for response in responses}) == 1
    assert len(lifecycle(await api.rig.read_outbox())) == 1


async def test_a_hundred_starts_of_one_business_key_make_one_saga(api: Api) -> None:
    responses = await asyncio.gather(
        *(api.start(request_key=f"r-{n % 7}" if n % 2 else None) for n in range(100))
    )
    assert outcomes(responses) == {201: 1, 200: 99}
    assert await api.rig.count("saga") == 1


async def test_two_replicas_make_one_saga(api: Api, prepared: str) -> None:
    other = await open_rig(prepared)
    async with open_api(other) as rival:
        responses = await asyncio.gather(
            *(each.start(request_key="r-1") for _ in range(20) for each in (api, rival))
        )
    await other.database.close()
    assert outcomes(responses) == {201: 1, 200: 39}
    assert await api.rig.count("saga") == 1


async def test_starts_at_once_share_transactions(api: Api) -> None:
    before = await api.rig.value("select max(written_by)::text::bigint from journal")
    assert before is None
    await asyncio.gather(*(api.start(f"ORD-{n}") for n in range(100)))
    assert await api.rig.count("saga") == 100
    transactions = await api.rig.value("select count(distinct written_by) from journal")
    assert isinstance(transactions, int)
    assert transactions <= 20


async def test_a_poisonous_start_fails_alone(api: Api) -> None:
    await api.rig.forbid_key("ORD-5")
    responses = await asyncio.gather(*(api.start(f"ORD-{n}") for n in range(10)))
    assert outcomes(responses) == {201: 9, 422: 1}
    assert problem(responses[5]) == (422, "store_rejected")


async def test_a_start_that_died_at_the_commit_may_be_sent_again(api: Api, rig: Rig) -> None:
    with failpoints.armed("store.before-commit=error:connection@1"):
        failed = await api.start(request_key="r-1")
    assert failed.status_code == 503
    assert failed.json()["retryable"]
    assert await rig.count("saga") == 0
    assert (await api.start(request_key="r-1")).status_code == 201


async def test_a_start_for_another_tenant_is_forbidden(api: Api) -> None:
    assert problem(await api.start(who="globex")) == (403, "permission_denied")
    assert problem(await api.post("/sagas", start_body(), who="viewer")) == (
        403,
        "permission_denied",
    )
    assert await api.rig.count("saga") == 0
