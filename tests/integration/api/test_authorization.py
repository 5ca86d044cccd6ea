"""Who may do what: every operation of the document x every role x own, other and absent things."""

import asyncio
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import httpx
import pytest
from tests.integration.orchestrator.support import Rig, order

from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ROLES,
    ApiKeys,
    HeaderAuthenticator,
    KeyRequest,
    KeyVerifier,
    Permission,
    Principal,
    Role,
    TenantScope,
    TokenVerifier,
)
from sagabus_orchestrator.api.routes import events

from .support import Api, start_body

OWNER = Principal("owner", frozenset(Permission), ALL_TENANTS)


@dataclass(frozen=True)
class Target:
    """What a request is about."""

    tenant: str
    saga_id: str
    key: str
    letter_id: str
    bulk_id: str
    key_name: str

    def hide(self, text: str) -> str:
        """Return an answer without what the question itself named."""
        names = (self.saga_id, self.letter_id, self.bulk_id, self.key_name, self.key, self.tenant)
        for name in names:
            text = text.replace(name, "IT")
        return text


@dataclass(frozen=True)
class Row:
    """One operation: what opens it, and how to ask for it. `{...}` stands for the target's."""

    permission: Permission | frozenset[Permission]
    body: Mapping[str, Any] | None = None
    query: Mapping[str, str] | None = None
    creates: bool = False
    """Makes something for a named tenant: another one is forbidden, known or not."""
    unscoped: bool = False
    """Takes a grant for all tenants: whoever holds some is forbidden it, for their own too."""
    before: tuple[str, str] | None = None
    """What makes that which the operation is about, each time: it is gone afterwards."""

    @property
    def permissions(self) -> frozenset[Permission]:
        if isinstance(self.permission, Permission):
            return frozenset({self.permission})
        return self.permission


WHY = {"reason": "a ticket"}
STEER = {"reason": "a ticket", "tenant": "{tenant}"}
OF_TENANT = {"tenant": "{tenant}"}
RETRIES = frozenset(
    {
        Permission.SAGA_RETRY_STEP,
        Permission.SAGA_RETRY_RESOLUTION,
        Permission.SAGA_RETRY_COMPENSATION,
    }
)
ATTEST = {
    **WHY,
    "evidence": "seen",
    "attestation": {"kind": "outcome", "activation": "reserve", "outcome": "SUCCEEDED"},
}
BULK = {
    **WHY,
    "kind": "pause",
    "filter": {"tenant": "{tenant}"},
    "most": 10,
    "operation_id": "op-{key}",
}
HOLD = ("PUT", "/v1/holds/{target}/{name}")

MATRIX: Mapping[tuple[str, str], Row] = {
    ("POST", "/v1/sagas"): Row(
        Permission.SAGA_START, start_body("{key}", tenant="{tenant}"), creates=True
    ),
    ("GET", "/v1/sagas"): Row(Permission.SAGA_LIST, query=OF_TENANT),
    ("GET", "/v1/saga-by-key"): Row(Permission.SAGA_READ, query={"business_key": "{key}"}),
    ("GET", "/v1/events"): Row(Permission.SAGA_LIST, query=OF_TENANT),
    ("GET", "/v1/sagas/{saga_id}"): Row(Permission.SAGA_READ),
    ("GET", "/v1/sagas/{saga_id}/outcome"): Row(Permission.SAGA_READ, query={"timeout_ms": "0"}),
    ("GET", "/v1/sagas/{saga_id}/plan"): Row(Permission.SAGA_READ),
    ("GET", "/v1/sagas/{saga_id}/why"): Row(Permission.SAGA_READ),
    ("GET", "/v1/sagas/{saga_id}/events"): Row(Permission.SAGA_READ),
    ("GET", "/v1/sagas/{saga_id}/journal"): Row(Permission.JOURNAL_READ),
    ("GET", "/v1/journal"): Row(Permission.JOURNAL_READ, query=OF_TENANT),
    ("GET", "/v1/audit"): Row(Permission.AUDIT_READ, query=OF_TENANT),
    ("POST", "/v1/sagas/{saga_id}/pause"): Row(Permission.SAGA_PAUSE, WHY),
    ("POST", "/v1/sagas/{saga_id}/resume"): Row(Permission.SAGA_RESUME, WHY),
    ("POST", "/v1/sagas/{saga_id}/cancel"): Row(Permission.SAGA_CANCEL, WHY),
    ("POST", "/v1/sagas/{saga_id}/retry"): Row(RETRIES, WHY),
    ("POST", "/v1/sagas/{saga_id}/record-outcome"): Row(Permission.SAGA_RECORD_OUTCOME, ATTEST),
    ("POST", "/v1/sagas/{saga_id}/close"): Row(Permission.SAGA_CLOSE, {**WHY, "dry_run": True}),
    ("POST", "/v1/bulk-operations"): Row(Permission.BULK_RUN, BULK),
    ("POST", "/v1/bulk-operations/preview"): Row(Permission.BULK_RUN, BULK),
    ("GET", "/v1/bulk-operations"): Row(Permission.BULK_READ),
    ("GET", "/v1/bulk-operations/{bulk_id}"): Row(Permission.BULK_READ),
    ("GET", "/v1/bulk-operations/{bulk_id}/refusals"): Row(Permission.BULK_READ),
    ("POST", "/v1/bulk-operations/{bulk_id}/pause"): Row(Permission.BULK_RUN, WHY),
    ("POST", "/v1/bulk-operations/{bulk_id}/resume"): Row(Permission.BULK_RUN, WHY),
    ("POST", "/v1/bulk-operations/{bulk_id}/cancel"): Row(Permission.BULK_RUN, WHY),
    ("GET", "/v1/holds"): Row(Permission.PAUSE_READ),
    HOLD: Row(Permission.PAUSE_SET, STEER, creates=True),
    ("POST", "/v1/holds/{target}/{name}/release"): Row(Permission.PAUSE_SET, STEER, before=HOLD),
    ("GET", "/v1/dead-letters"): Row(Permission.DLT_READ, query={"saga_id": "{saga_id}"}),
    ("GET", "/v1/dead-letters/{letter_id}"): Row(Permission.DLT_READ),
    ("POST", "/v1/dead-letters/{letter_id}/redrive"): Row(Permission.DLT_REDRIVE, WHY),
    ("POST", "/v1/dead-letters/{letter_id}/discard"): Row(Permission.DLT_DISCARD, WHY),
    ("GET", "/v1/definitions"): Row(Permission.DEFINITION_READ),
    ("POST", "/v1/definitions"): Row(
        Permission.DEFINITION_PUBLISH, order(8, tenant="{tenant}"), creates=True
    ),
    ("GET", "/v1/definitions/{workflow}/{version}"): Row(
        Permission.DEFINITION_READ, query=OF_TENANT
    ),
    ("GET", "/v1/definitions/{workflow}/{version}/graph"): Row(
        Permission.DEFINITION_READ, query=OF_TENANT
    ),
    ("POST", "/v1/definitions/{workflow}/{version}/activate"): Row(
        Permission.DEFINITION_ACTIVATE, STEER
    ),
    ("POST", "/v1/definitions/{workflow}/{version}/deprecate"): Row(
        Permission.DEFINITION_DEPRECATE, STEER
    ),
    ("POST", "/v1/definitions/{workflow}/{version}/retire"): Row(
        Permission.DEFINITION_RETIRE, STEER
    ),
    ("GET", "/v1/quotas"): Row(Permission.QUOTA_READ),
    ("GET", "/v1/quotas/{tenant}"): Row(Permission.QUOTA_READ),
    ("PUT", "/v1/quotas/{tenant}/{action}"): Row(Permission.QUOTA_SET, {"most": 7}, unscoped=True),
    ("DELETE", "/v1/quotas/{tenant}/{action}"): Row(Permission.QUOTA_SET, unscoped=True),
    ("POST", "/v1/keys"): Row(
        Permission.KEY_CREATE,
        {"name": "k-{saga_id}", "roles": ["viewer"], "tenants": ["{tenant}"]},
        creates=True,
    ),
    ("GET", "/v1/keys"): Row(Permission.KEY_READ),
    ("POST", "/v1/keys/{key_name}/revoke"): Row(Permission.KEY_REVOKE, WHY),
}


@dataclass
class World:
    """The API with real keys: for each role one that sees acme alone."""

    api: Api
    keys: Mapping[Role, str]
    own: Target
    other: Target
    absent: Target

    async def ask(self, row: tuple[str, str], role: Role, target: Target) -> httpx.Response:
        method, path = row
        asked = MATRIX[row]
        where = path.replace("{workflow}", "order").replace("{version}", "7")
        where = where.replace("{target}", "participant").replace("{name}", "nobody")
        answer = await self.api.client.request(
            method,
            _fill(where.replace("{action}", "start"), target),
            params=_fill(asked.query, target),
            json=_fill(asked.body, target),
            headers={"x-api-key": self.keys[role]},
        )
        assert not self.keys[role] or self.keys[role] not in f"{answer.headers}{answer.text}"
        return answer

    async def silhouette(self, row: tuple[str, str], role: Role, target: Target) -> str:
        """Return all that an answer tells about a target, without the names that were asked by."""
        answer = await self.ask(row, role, target)
        kept = dict(answer.headers)
        kept.pop("content-length", None)
        kept.pop("x-request-id")  # new for each request
        body = answer.text
        if "json" in answer.headers.get("content-type", ""):
            document = answer.json()
            for name in list(document):
                if name in {"trace_id", "cursor", "next_cursor", "id"} or name.endswith("_at"):
                    del document[name]
            body = json.dumps(document)
        if "event-stream" in answer.headers.get("content-type", ""):
            # How often a stream says that it lives is a matter of time.
            body = "".join(line for line in body.splitlines() if line.startswith("data:"))
        return target.hide(f"{answer.status_code} {kept} {body}")


def _fill(template: Any, target: Target) -> Any:
    match template:
        case str():
            for name in ("tenant", "saga_id", "key", "letter_id", "bulk_id", "key_name"):
                template = template.replace(f"{{{name}}}", getattr(target, name))
            return template
        case Mapping():
            return {name: _fill(value, target) for name, value in template.items()}
        case list():
            return [_fill(value, target) for value in template]
        case _:
            return template


@pytest.fixture
async def world(rig: Rig, api: Api, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(events, "STREAM_S", 0.05)
    own = await _target(rig, api, "acme", "ORD-1")
    other = await _target(rig, api, "globex", "GLX-9")
    keys = ApiKeys(rig.database)
    texts = {}
    for role in Role:
        request = KeyRequest(role.value, TenantScope(frozenset({"acme"})), frozenset({role}))
        texts[role] = (await keys.create(request, OWNER))[1].reveal()
    authenticator = HeaderAuthenticator(TokenVerifier([]), KeyVerifier(rig.database))
    api.app.state.backend = replace(api.backend, authenticator=authenticator)
    unknown = (str(uuid.uuid4()), "INI-3", str(uuid.uuid4()), str(uuid.uuid4()))
    absent = Target("initech", *unknown, "initech-shop")
    return World(api, texts, own, other, absent)


async def _target(rig: Rig, api: Api, tenant: str, key: str) -> Target:
    await rig.publish(order(7, tenant=tenant))
    await rig.process(rig.start_record(key, tenant=tenant))
    saga, letter = rig.saga(key, tenant), str(uuid.uuid4())
    await rig.run(
        'insert into dead_letter (topic, partition, "offset", id, kind, saga_id, tenant, headers,'
        " value, code, detail, attempts, first_seen)"
        " values ('t', 0, $1, $2, 'result', $3, $4, '', '', 'c', 'd', 1, 'now')",
        len(key) + len(tenant),
        letter,
        saga,
        tenant,
    )
    bulk = {**BULK, "filter": {"tenant": tenant}, "operation_id": f"first-{tenant}"}
    begun = (await api.post("/bulk-operations", bulk, who=tenant)).json()
    shop = KeyRequest(f"{tenant}-shop", TenantScope(frozenset({tenant})), frozenset({Role.VIEWER}))
    await ApiKeys(rig.database).create(shop, OWNER)
    return Target(tenant, saga, key, letter, begun["id"], shop.name)


def test_every_operation_has_its_row(api_document: Mapping[str, Any]) -> None:
    found = {
        (method.upper(), path)
        for path, methods in api_document["paths"].items()
        for method in methods
        if method != "parameters"
    }
    assert found == set(MATRIX)


@pytest.fixture
def api_document(api: Api) -> Mapping[str, Any]:
    document: Mapping[str, Any] = api.app.openapi()
    return document


@pytest.mark.parametrize("row", MATRIX, ids=" ".join)
async def test_roles_and_tenants(world: World, row: tuple[str, str]) -> None:
    for role in Role:
        if MATRIX[row].unscoped or ROLES[role].isdisjoint(MATRIX[row].permissions):
            await _check_forbidden(world, row, role)
        else:
            await _check_permitted(world, row, role)


async def _check_forbidden(world: World, row: tuple[str, str], role: Role) -> None:
    """The permission comes before existence: three times the same words."""
    own, other, absent = [
        await world.silhouette(row, role, target)
        for target in (world.own, world.other, world.absent)
    ]
    assert own.startswith("403 "), own
    assert '"permission_denied"' in own
    assert own == other == absent


async def _check_permitted(world: World, row: tuple[str, str], role: Role) -> None:
    other, absent = [
        await world.silhouette(row, role, target) for target in (world.other, world.absent)
    ]
    assert other == absent
    assert other.startswith("403 ") is MATRIX[row].creates, other
    if (before := MATRIX[row].before) is not None:
        assert (await world.ask(before, Role.ADMIN, world.own)).status_code == 200
    own = await world.ask(row, role, world.own)
    assert own.status_code not in {401, 403, 404, 405, 422}, own.text
    assert own.status_code < 500, own.text


@pytest.mark.parametrize("row", MATRIX, ids=" ".join)
async def test_nobody_gets_in_without_a_key(world: World, row: tuple[str, str]) -> None:
    for key in ("", "sgb_", f"sgb_{'a' * 16}_{'a' * 52}"):
        told = replace(world, keys={Role.ADMIN: key})
        answers = [
            await told.silhouette(row, Role.ADMIN, target)
            for target in (world.own, world.other, world.absent)
        ]
        assert answers[0].startswith("401 ")
        assert len(set(answers)) == 1


async def test_what_others_did_is_in_no_page(world: World) -> None:
    """Ids, keys and the name of another tenant show in no answer that was not asked by them."""
    for row in MATRIX:
        for target in (world.own, world.absent):
            text = (await world.ask(row, Role.ADMIN, target)).text
            assert not [name for name in _names(world.other) if name in text], row


def _names(target: Target) -> tuple[str, ...]:
    own = (target.saga_id, target.letter_id, target.bulk_id, target.key_name)
    return (*own, target.tenant, target.key)


@pytest.mark.parametrize("row", [row for row, asked in MATRIX.items() if asked.unscoped])
async def test_what_takes_all_tenants_takes_the_permission_too(
    world: World, row: tuple[str, str]
) -> None:
    keys = ApiKeys(world.api.rig.database)
    everywhere = {}
    for role in Role:
        request = KeyRequest(f"{role}-of-all", ALL_TENANTS, frozenset({role}))
        everywhere[role] = (await keys.create(request, OWNER))[1].reveal()
    told = replace(world, keys=everywhere)
    for role in Role:
        answer = await told.ask(row, role, told.own)
        may = not ROLES[role].isdisjoint(MATRIX[row].permissions)
        assert answer.status_code == (200 if may else 403), answer.text


async def test_requests_at_once_keep_their_callers_apart(world: World) -> None:
    row = ("GET", "/v1/sagas/{saga_id}")
    asked = [
        world.ask(row, Role.VIEWER, target)
        for _ in range(25)
        for target in (world.own, world.other)
    ]
    codes = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert codes == [200, 404] * 25
