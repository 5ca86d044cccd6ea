"""What a caller tries beyond what is theirs, or beyond what a replica can bear."""

import asyncio
import json
import uuid
from typing import Any

import pytest
from starlette.types import Message

from sagabus_messages import pack_headers

from .support import Api, problem, start_body
from .test_bulk import question


async def start_letter(api: Api, tenant: str, offset: int = 1) -> str:
    """Keep a dead letter of a start that nobody could read, which names a tenant."""
    letter = str(uuid.uuid4())
    await api.rig.run(
        'insert into dead_letter (topic, partition, "offset", id, kind, tenant, headers, value,'
        " code, detail, attempts, first_seen)"
        " values ('sagabus.start.v1', 0, $5, $1, 'start', $2, $3, $4, 'invalid_json', '', 1, '')",
        letter,
        tenant,
        pack_headers(()),
        json.dumps({"tenant": tenant}).encode(),
        offset,
    )
    return letter


@pytest.mark.parametrize("dry_run", [True, False])
async def test_an_edited_start_stays_with_the_callers_tenants(api: Api, dry_run: bool) -> None:
    letter = await start_letter(api, "acme")
    body = {"reason": "mended", "edited_body": json.dumps(start_body(tenant="globex"))}
    refused = await api.post(
        f"/dead-letters/{letter}/redrive", {**body, "dry_run": dry_run}, who="acme"
    )
    assert problem(refused) == (403, "permission_denied")
    assert await api.rig.count("saga") == 0
    body["edited_body"] = json.dumps(start_body(tenant="acme"))
    done = await api.post(f"/dead-letters/{letter}/redrive", body, who="acme")
    assert done.status_code == 200, done.text


async def test_an_operation_id_of_another_tenants_letter_is_not_told(api: Api) -> None:
    theirs = await start_letter(api, "globex")
    deed = {"reason": "no use", "operation_id": "op-1"}
    done = await api.post(f"/dead-letters/{theirs}/discard", deed, who="globex")
    assert done.status_code == 200
    mine = await start_letter(api, "acme", 2)
    body = {**deed, "edited_body": json.dumps(start_body())}
    assert (await api.post(f"/dead-letters/{mine}/redrive", body, who="acme")).status_code == 200


async def test_an_operation_id_of_a_bulk_operation_means_the_same_tenants(api: Api) -> None:
    first = question(filter={"tenant": "acme"})
    assert (await api.post("/bulk-operations", first)).status_code == 202
    other = await api.post("/bulk-operations", question(filter={"tenant": "globex"}))
    assert problem(other) == (409, "operation_id_reused")
    assert (await api.post("/bulk-operations", first)).status_code == 202


async def test_a_bulk_operation_on_a_tenant_of_others_is_seen_by_nobody_else(api: Api) -> None:
    asked = question(filter={"tenant": "initech"})
    assert (await api.post("/bulk-operations", asked, who="acme")).status_code == 202
    listed = (await api.get("/bulk-operations", who="globex")).json()
    assert listed["bulk_operations"] == []


async def test_a_body_that_never_ends_is_not_waited_for_before_it_is_known_who_sends_it(
    api: Api,
) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("nothing comes")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": "POST",
        "path": "/v1/sagas",
        "raw_path": b"/v1/sagas",
        "query_string": b"",
        "headers": [(b"transfer-encoding", b"chunked")],
        "http_version": "1.1",
        "scheme": "http",
    }
    async with asyncio.timeout(5):
        await api.app(scope, receive, send)
    assert sent[0]["status"] == 401


@pytest.mark.parametrize(
    ("path", "body", "who"),
    [
        ("/sagas", start_body(tenant="globex"), "acme"),
        ("/definitions/order/1/retire", {"reason": "a ticket"}, "acme"),
        ("/definitions/order/1/retire", {"reason": "a ticket"}, "viewer"),
    ],
    ids=["start-for-others", "retire-for-all", "retire"],
)
async def test_whoever_is_refused_a_change_is_in_the_audit_once(
    api: Api, path: str, body: dict[str, Any], who: str
) -> None:
    refused = await api.post(path, body, who=who)
    assert problem(refused) == (403, "permission_denied")
    rows = (await api.get("/audit", actor=f"key:{who}")).json()["rows"]
    told = [(row["subject"], row["outcome"], row["code"]) for row in rows]
    assert told == [(f"/v1{path}", "refused", "permission_denied")]


async def test_credentials_that_stand_twice_count_for_nobody(api: Api) -> None:
    """Of two headers a proxy may have judged the other one."""
    for name, values in (
        ("x-api-key", ("admin", "starter")),
        ("authorization", ("Bearer a", "Bearer b")),
    ):
        headers = [(name, value) for value in values]
        answer = await api.client.get("/v1/sagas", headers=headers)
        assert problem(answer) == (401, "credentials_ambiguous")
