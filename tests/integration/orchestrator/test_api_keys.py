"""API keys on a real database: made, counted, revoked, and what does not count."""

import asyncio
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ROLES,
    ApiKeys,
    HeaderAuthenticator,
    KeyRequest,
    KeyVerifier,
    Permission,
    PermissionDenied,
    Principal,
    Role,
    TenantScope,
    TokenVerifier,
    Unauthenticated,
)
from sagabus_orchestrator.errors import NotFound, Refused

from .support import Rig, Shell

REFUSED, USAGE = 4, 2
OWNER = Principal("owner", frozenset(Permission), ALL_TENANTS)
ACME = TenantScope(frozenset({"acme"}))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def keys(empty_rig: Rig) -> ApiKeys:
    return ApiKeys(empty_rig.database)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def verifier(empty_rig: Rig, clock: Clock) -> KeyVerifier:
    return KeyVerifier(empty_rig.database, clock=clock)


async def made(keys: ApiKeys, name: str = "ci", lives: timedelta | None = None) -> str:
    request = KeyRequest(name, ACME, frozenset({Role.STARTER}), lives=lives)
    return (await keys.create(request, OWNER))[1].reveal()


async def refused(verifier: KeyVerifier, text: str) -> str:
    with pytest.raises(Unauthenticated) as found:
        await verifier.verify(text)
    return found.value.code


class TestVerification:
    async def test_a_key_stands_for_its_name_roles_and_tenants(
        self, keys: ApiKeys, verifier: KeyVerifier
    ) -> None:
        extra = frozenset({Permission.DLT_READ})
        request = KeyRequest("ci", ACME, frozenset({Role.STARTER}), extra)
        _, text = await keys.create(request, OWNER)
        caller = await verifier.verify(text.reveal())
        assert caller == Principal("key:ci", ROLES[Role.STARTER] | extra, ACME)

    async def test_a_wrong_secret_and_an_unknown_key_look_the_same(
        self, keys: ApiKeys, verifier: KeyVerifier
    ) -> None:
        text, other = await made(keys), await made(keys, "other")
        mixed = text[:21] + other[21:]
        unknown = f"sgb_{'a' * 16}_{'a' * 52}"
        with pytest.raises(Unauthenticated) as wrong:
            await verifier.verify(mixed)
        with pytest.raises(Unauthenticated) as absent:
            await verifier.verify(unknown)
        assert str(wrong.value) == str(absent.value)
        assert wrong.value.code == "key_invalid"

    @pytest.mark.parametrize("text", ["", "x", "sgb__", "sgb_" + "a" * 70, "é" * 73, "\0"])
    async def test_what_is_no_key_costs_no_look_up(self, rig: Rig, text: str) -> None:
        await rig.database.close()
        assert await refused(KeyVerifier(rig.database), text) == "key_invalid"

    async def test_an_expired_key(
        self, keys: ApiKeys, verifier: KeyVerifier, empty_rig: Rig, clock: Clock
    ) -> None:
        text = await made(keys, lives=timedelta(days=1))
        await verifier.verify(text)
        async with empty_rig.database.connection() as conn:
            await conn.execute("update api_key set expires_at = clock_timestamp()")
        clock.now += 5.1
        assert await refused(verifier, text) == "key_expired"
        assert (
            await refused(verifier, text[:-1] + ("a" if text[-1] != "a" else "b")) == "key_invalid"
        ), "only its holder hears it"

    async def test_a_revoked_key_counts_no_longer_than_the_cache_believes(
        self, keys: ApiKeys, verifier: KeyVerifier, clock: Clock
    ) -> None:
        text = await made(keys)
        await verifier.verify(text)
        first = await keys.revoke("ci", OWNER)
        again = await keys.revoke("ci", Principal("other", OWNER.permissions, ALL_TENANTS))
        assert first == again
        await verifier.verify(text)
        clock.now += 5.1
        assert await refused(verifier, text) == "key_revoked"
        assert (
            await refused(verifier, text[:-1] + ("a" if text[-1] != "a" else "b")) == "key_invalid"
        ), "only its holder hears it"

    async def test_use_is_noted_by_the_hour_and_by_the_right_secret_only(
        self, keys: ApiKeys, verifier: KeyVerifier, clock: Clock
    ) -> None:
        text = await made(keys)
        assert await refused(verifier, text[:-1] + ("a" if text[-1] != "a" else "b"))
        assert (await keys.list(OWNER, 10))[0].last_used_at is None
        await asyncio.gather(*(verifier.verify(text) for _ in range(20)))
        noted = (await keys.list(OWNER, 10))[0].last_used_at
        assert noted is not None
        clock.now += 60
        await verifier.verify(text)
        assert (await keys.list(OWNER, 10))[0].last_used_at == noted

    async def test_the_secret_is_nowhere_in_the_database(
        self, keys: ApiKeys, empty_rig: Rig
    ) -> None:
        secret = (await made(keys)).rpartition("_")[2]
        async with empty_rig.database.connection() as conn:
            row = await conn.fetchrow("select * from api_key")
        assert secret not in repr(row)
        assert secret.encode().hex() not in repr(row)


class TestHeaders:
    async def test_one_credential_of_either_kind(
        self, keys: ApiKeys, verifier: KeyVerifier
    ) -> None:
        door = HeaderAuthenticator(TokenVerifier([]), verifier)
        text = await made(keys)
        assert (await door.authenticate(None, text)).actor == "key:ci"
        for authorization, api_key, code in (
            (None, None, "credentials_missing"),
            ("", "", "credentials_missing"),
            ("Bearer", None, "credentials_missing"),
            ("Basic YTpi", None, "credentials_missing"),
            ("Bearer x", text, "credentials_ambiguous"),
            ("bearer  x", None, "token_invalid"),
            (f"Bearer {text}", None, "token_invalid"),
        ):
            with pytest.raises(Unauthenticated, match=f"^{code}"):
                await door.authenticate(authorization, api_key)


class TestManagement:
    async def test_a_name_is_used_once_for_ever(self, keys: ApiKeys) -> None:
        await made(keys)
        await keys.revoke("ci", OWNER)
        with pytest.raises(Refused, match="key_name_taken"):
            await made(keys)

    async def test_one_of_many_at_once_gets_the_name(self, keys: ApiKeys) -> None:
        found = await asyncio.gather(*(made(keys) for _ in range(10)), return_exceptions=True)
        assert sum(isinstance(each, str) for each in found) == 1

    @pytest.mark.parametrize(
        "request_",
        [
            KeyRequest("", ACME, frozenset({Role.VIEWER})),
            KeyRequest("A b", ACME, frozenset({Role.VIEWER})),
            KeyRequest("ci", ACME),
            KeyRequest("ci", TenantScope(), frozenset({Role.VIEWER})),
            KeyRequest("ci", ACME, frozenset({Role.VIEWER}), lives=timedelta()),
            KeyRequest("ci", ACME, frozenset({Role.VIEWER}), lives=timedelta(days=4_000)),
        ],
        ids=range(6),
    )
    async def test_a_senseless_request(self, keys: ApiKeys, request_: KeyRequest) -> None:
        with pytest.raises(Refused, match="invalid_key_request"):
            await keys.create(request_, OWNER)

    async def test_nobody_gives_away_what_they_lack(self, keys: ApiKeys) -> None:
        maker = Principal(
            "user:a@corp", ROLES[Role.VIEWER] | {Permission.KEY_CREATE}, TenantScope(frozenset("a"))
        )
        good = KeyRequest("ci", maker.tenants, frozenset({Role.VIEWER}))
        await keys.create(good, maker)
        for wider in (
            KeyRequest("b", maker.tenants, frozenset({Role.OPERATOR})),
            KeyRequest("b", ACME, frozenset({Role.VIEWER})),
            KeyRequest("b", ALL_TENANTS, frozenset({Role.VIEWER})),
        ):
            with pytest.raises(PermissionDenied):
                await keys.create(wider, maker)
        viewer = Principal("user:b@corp", ROLES[Role.VIEWER], ALL_TENANTS)
        with pytest.raises(PermissionDenied):
            await keys.create(good, viewer)

    async def test_keys_of_other_tenants_look_absent(self, keys: ApiKeys) -> None:
        await made(keys)
        await keys.create(KeyRequest("all", ALL_TENANTS, frozenset({Role.ADMIN})), OWNER)
        own = Principal("a", OWNER.permissions, ACME)
        other = Principal("b", OWNER.permissions, TenantScope(frozenset({"zeta"})))
        assert [key.name for key in await keys.list(OWNER, 10)] == ["all", "ci"]
        assert [key.name for key in await keys.list(own, 10)] == ["ci"]
        assert await keys.list(other, 10) == []
        for name in ("ci", "nobody"):
            with pytest.raises(NotFound, match=f"not_found: there is no key '{name}'"):
                await keys.revoke(name, other)
        assert (await keys.list(own, 10))[0].revoked_at is None


class TestCommands:
    async def test_create_shows_the_key_once(
        self, shell: Shell, verifier: KeyVerifier, empty_rig: Rig
    ) -> None:
        made = await shell("keys", "create", "ci", "--grant", "starter", "--tenant", "acme")
        assert (await verifier.verify(made["key"])).actor == "key:ci"
        (listed,) = (await shell("keys", "list"))["keys"]
        assert listed.pop("last_used_at")
        del made["last_used_at"]
        assert listed == {name: value for name, value in made.items() if name != "key"}
        assert (await shell("keys", "revoke", "ci"))["revoked_at"]
        assert await refused(KeyVerifier(empty_rig.database), made["key"]) == "key_revoked"

    @pytest.mark.parametrize(
        "words",
        [
            ("--grant", "starter"),
            ("--grant", "starter", "--tenant", "a", "--all-tenants"),
            ("--grant", "root", "--all-tenants"),
        ],
    )
    async def test_words_that_make_no_sense(
        self, shell: Shell, empty_rig: Rig, words: tuple[str, ...]
    ) -> None:
        del empty_rig
        assert (await shell("keys", "create", "ci", *words, code=USAGE))["error"]["code"] == "usage"
        assert (await shell("keys", "revoke", "ci", code=REFUSED))["error"]["code"] == "not_found"

    async def test_a_stack_makes_its_own_key_once(
        self, shell: Shell, verifier: KeyVerifier, tmp_path: Path
    ) -> None:
        file = tmp_path / "api-key"
        words = ("keys", "create", "local", "--grant", "admin", "--all-tenants", "--days", "0")
        first = await shell(*words, "--file", str(file))
        assert first == {"name": "local", "file": str(file), "created": True}
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert (await verifier.verify(file.read_text().strip())).tenants == ALL_TENANTS
        assert not (await shell(*words, "--file", str(file)))["created"]

        await shell("keys", "revoke", "local")
        renewed = await shell(*words, "--file", str(file))
        assert (renewed["name"], renewed["created"]) == ("local-2", True)
        assert not any(tmp_path.glob(".*"))  # noqa: ASYNC240 - of a test
