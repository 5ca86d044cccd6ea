"""API keys over HTTP: shown once, never more than the maker holds, gone everywhere in time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.integration.orchestrator.support import Rig

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

from .support import PEOPLE, Api, open_api, problem

OWNER = Principal("owner", frozenset(Permission), ALL_TENANTS)


def asked(name: str = "ci", **changes: Any) -> dict[str, Any]:
    return {"name": name, "roles": ["viewer"], "tenants": ["acme"], "reason": "a ticket", **changes}


async def test_a_key_is_shown_once_and_told_by_the_audit(api: Api, rig: Rig) -> None:
    made = await api.post("/keys", asked(permissions=["dlt:redrive"], lives_days=None), who="acme")
    assert (made.status_code, made.headers["cache-control"]) == (201, "no-store")
    key = made.json()
    assert (key["roles"], key["permissions"], key["expires_at"]) == (
        *(["viewer"], ["dlt:redrive"]),
        None,
    )
    assert key["created_by"] == "key:acme"
    secret = key.pop("key")
    assert secret.startswith(f"sgb_{key['id']}_")
    assert (await api.get("/keys", who="acme")).json() == {"keys": [key], "next_cursor": None}
    assert problem(await api.post("/keys", asked(), who="acme")) == (409, "key_name_taken")

    for _ in range(2):
        revoked = await api.post("/keys/ci/revoke", {"reason": "over"}, who="acme")
        assert revoked.json()["revoked_by"] == "key:acme"
    rows = (await api.get("/audit", who="acme")).json()["rows"]
    assert [(row["kind"], row["outcome"], row["subject"], row["reason"]) for row in rows] == [
        ("key:create", "done", "ci", "a ticket"),
        ("key:create", "refused", "ci", "a ticket"),
        ("key:revoke", "done", "ci", "over"),
    ]
    assert secret.rpartition("_")[2] not in repr(rows)


async def test_nobody_gives_away_what_they_lack(
    api: Api, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    maker = Principal(
        "key:maker", ROLES[Role.VIEWER] | {Permission.KEY_CREATE}, TenantScope(frozenset({"acme"}))
    )
    monkeypatch.setitem(PEOPLE, "maker", maker)
    for wider in (
        {"roles": ["operator"]},
        {"permissions": ["saga:cancel"]},
        {"permissions": ["key:revoke"]},
        {"tenants": ["acme", "globex"]},
        {"tenants": [], "all_tenants": True},
    ):
        answer = await api.post("/keys", asked(**wider), who="maker")
        assert problem(answer) == (403, "permission_denied"), wider
    mortal = replace(maker, until=datetime.now(UTC) + timedelta(days=30))
    monkeypatch.setitem(PEOPLE, "mortal", mortal)
    for longer in ({"lives_days": None}, {"lives_days": 31}, {}):
        answer = await api.post("/keys", asked(**longer), who="mortal")
        assert problem(answer) == (403, "permission_denied"), longer
    assert await rig.count("api_key") == 0
    shorter = await api.post("/keys", asked("short", lives_days=29), who="mortal")
    assert shorter.status_code == 201
    assert (await api.post("/keys", asked(), who="maker")).status_code == 201


async def test_senseless_keys_are_refused(api: Api) -> None:
    for wrong, code in (
        ({"name": "A B"}, "invalid_field"),
        ({"roles": []}, "invalid_key_request"),
        ({"roles": ["root"]}, "invalid_field"),
        ({"tenants": []}, "invalid_key_request"),
        ({"lives_days": 0}, "invalid_field"),
        ({"lives_days": 3_651}, "invalid_field"),
        ({"life_days": 3}, "invalid_field"),
    ):
        assert problem(await api.post("/keys", asked(**wrong))) == (400, code), wrong


async def test_keys_are_paged_by_name_within_the_callers_tenants(api: Api) -> None:
    for name in ("c", "a", "b"):
        await api.post("/keys", asked(name))
    await api.post("/keys", asked("everybodys", tenants=[], all_tenants=True))
    await api.post("/keys", asked("both", tenants=["acme", "globex"]))
    found: list[str] = []
    cursor = None
    while cursor is not None or not found:
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await api.get("/keys", who="acme", **query)).json()
        found += [key["name"] for key in page["keys"]]
        cursor = page["next_cursor"]
    assert found == ["a", "b", "c"]
    for hidden in ("everybodys", "both", "nobodys"):
        answer = await api.post(f"/keys/{hidden}/revoke", {}, who="acme")
        assert problem(answer) == (404, "not_found")


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_revoked_key_counts_nowhere_once_the_bound_has_passed(api: Api, rig: Rig) -> None:
    """Two processes of the API, each with what it has looked up."""
    request = KeyRequest("ci", ALL_TENANTS, frozenset({Role.ADMIN}))
    text = (await ApiKeys(rig.database).create(request, OWNER))[1].reveal()
    clock = Clock()
    async with open_api(rig) as other:
        for each in (api, other):
            verifier = KeyVerifier(rig.database, cache_ms=5_000, clock=clock)
            door = HeaderAuthenticator(TokenVerifier([]), verifier)
            each.app.state.backend = replace(each.backend, authenticator=door)
            assert (await each.get("/sagas", who=text)).status_code == 200
        assert (await api.post("/keys/ci/revoke", {}, who=text)).status_code == 200
        clock.now = 4.9
        assert (await other.get("/sagas", who=text)).status_code == 200
        clock.now = 5.0
        for each in (api, other):
            assert problem(await each.get("/sagas", who=text)) == (401, "key_revoked")
