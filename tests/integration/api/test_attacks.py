"""What a caller tries beyond what is theirs, or beyond what a replica can bear."""

import asyncio
import base64
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


def packed(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


NOBODY = "00000000-0000-0000-0000-000000000000"
BEYOND = 2**63
FORGED = {
    "/sagas": [
        packed(f"0001-01-01T00:00:00+14:00 {NOBODY}"),
        packed(f"9999-12-31T23:59:59.999999-14:00 {NOBODY}"),
        packed(f"2026-01-01T00:00:00 {NOBODY}"),
        packed("2026-01-01T00:00:00+00:00 \0"),
    ],
    "/sagas/{saga}/journal": [f"{BEYOND}.0", f"0.{2**31}", "-1.0", "1", "\u0661.0", "1.0\n"],
    "/journal": [packed(f"{BEYOND}.0.0.0"), packed("1.-1.0.0"), packed("1.1_0.0.0"), packed("1")],
    "/audit": [packed(f"1.0.{BEYOND}.0"), packed("1.0.0.0") + "!", packed("1.0.0.\0")],
    "/dead-letters": [
        packed(f"{2**31} 0 topic"),
        packed(f"0 {BEYOND} topic"),
        packed("0 0 to\0pic"),
        packed("0 0"),
    ],
    "/bulk-operations": [NOBODY, "\0", NOBODY.upper(), "{bulk_of_others}"],
    "/bulk-operations/{bulk}/refusals": ["\0", "{" + NOBODY + "}"],
}


async def test_a_forged_cursor_is_refused_by_its_own_code_before_it_is_used(api: Api) -> None:
    saga = (await api.start()).json()["saga_id"]
    own = question(filter={"tenant": "acme"})
    bulk = (await api.post("/bulk-operations", own, who="acme")).json()["id"]
    for path, cursors in FORGED.items():
        where = path.replace("{saga}", saga).replace("{bulk}", bulk)
        for cursor in (*cursors, "", "\0", "%", "é" * 9):
            told = cursor.replace("{bulk_of_others}", bulk)
            who = "globex" if told != cursor else "acme"
            answer = await api.get(where, who=who, cursor=told)
            assert problem(answer) == (400, "invalid_cursor"), (path, cursor)


@pytest.mark.parametrize("told", ["-1", str(2**53), "9" * 400, "x", "", "1.5", "\x01"])
async def test_a_forged_id_of_an_event_is_refused(api: Api, told: str) -> None:
    headers = {"x-api-key": "admin", "last-event-id": told}
    answer = await api.client.get("/v1/events", headers=headers)
    assert problem(answer) == (400, "invalid_field")
