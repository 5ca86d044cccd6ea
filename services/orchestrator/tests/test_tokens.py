"""Bearer tokens against a real key server on loopback: what counts, and what does not."""

import asyncio
import base64
import hashlib
import hmac
import json
import math
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from sagabus_orchestrator.api.identity import (
    ALL_TENANTS,
    ROLES,
    IdentityUnavailable,
    Role,
    SigningKeys,
    TenantScope,
    TokenVerifier,
    Unauthenticated,
)

from .issuer import LocalIssuer, SigningKey, local_issuer

OLD, NEW, EC = SigningKey.rsa("old"), SigningKey.rsa("new"), SigningKey.ec("ec")
LONG_AGO, FAR_AHEAD = 1_000_000_000, 4_000_000_000


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(scope="module")
def server() -> Iterator[LocalIssuer]:
    with local_issuer() as issuer:
        yield issuer


@pytest.fixture
def issuer(server: LocalIssuer) -> LocalIssuer:
    server.keys, server.status, server.body, server.asked = [OLD.public()], 200, None, 0
    return server


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient() as client:
        yield client


@pytest.fixture
def clock() -> Clock:
    return Clock()


Make = Callable[..., TokenVerifier]


@pytest.fixture
def make(issuer: LocalIssuer, http: httpx.AsyncClient, clock: Clock) -> Make:
    def build(**changes: Any) -> TokenVerifier:
        settings = issuer.settings(**changes)
        return TokenVerifier([(settings, SigningKeys(settings, http, clock))])

    return build


async def refused(verifier: TokenVerifier, token: str) -> str:
    with pytest.raises(Unauthenticated) as found:
        await verifier.verify(token)
    assert token not in str(found.value)
    return found.value.code


class TestWhatCounts:
    async def test_the_caller_is_who_the_claims_say(self, issuer: LocalIssuer, make: Make) -> None:
        caller = await make().verify(issuer.token(OLD))
        assert caller.actor == "user:alice@corp"
        assert caller.permissions == ROLES[Role.OPERATOR]
        assert caller.tenants == TenantScope(frozenset({"acme"}))

    async def test_elliptic_curves(self, issuer: LocalIssuer, make: Make) -> None:
        issuer.keys = [OLD.public(), EC.public(use="sig", alg="ES256")]
        assert (await make().verify(issuer.token(EC))).actor == "user:alice@corp"

    async def test_one_fetch_serves_many_at_once(self, issuer: LocalIssuer, make: Make) -> None:
        verifier, token = make(), issuer.token(OLD)
        await asyncio.gather(*(verifier.verify(token) for _ in range(50)))
        assert issuer.asked == 1

    async def test_the_audience_may_be_one_of_several(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        token = issuer.token(OLD, aud=["elsewhere", "sagabus-api"])
        assert (await make().verify(token)).sees("acme")

    async def test_the_clocks_may_differ_by_the_leeway(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        now = int(time.time())
        token = issuer.token(OLD, exp=now - 60, nbf=now + 60, iat=now + 60)
        await make(leeway_s=300).verify(token)
        assert await refused(make(leeway_s=0), token) == "token_invalid"

    async def test_all_tenants_only_where_the_issuer_may_say_so(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        token = issuer.token(OLD, tenants=["*"])
        assert (await make(all_tenants="*").verify(token)).tenants == ALL_TENANTS
        assert (await make().verify(token)).tenants == TenantScope(frozenset({"*"}))

    async def test_claims_may_lie_deeper_and_roles_have_other_names(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        verifier = make(
            tenants_claim="https://corp/tenant",
            roles_claim="/realm_access/roles",
            roles={"sre": ["operator"], "dev": ["developer"]},
        )
        more: dict[str, Any] = {"https://corp/tenant": "acme"}
        token = issuer.token(OLD, tenants=None, realm_access={"roles": ["sre", "admin"]}, **more)
        caller = await verifier.verify(token)
        assert caller.permissions == ROLES[Role.OPERATOR]
        assert caller.sees("acme")

    @pytest.mark.parametrize("roles", [None, 7, {}, [1, None], "root wheel", ["Admin"]])
    async def test_without_a_known_role_nothing_is_permitted(
        self, issuer: LocalIssuer, make: Make, roles: object
    ) -> None:
        assert (await make().verify(issuer.token(OLD, roles=roles))).permissions == frozenset()

    async def test_an_odd_subject_becomes_a_digest(self, issuer: LocalIssuer, make: Make) -> None:
        verifier = make()
        for subject in ("x" * 250, "line\nbreak"):
            actor = (await verifier.verify(issuer.token(OLD, sub=subject))).actor
            assert actor == f"user-sha256:{hashlib.sha256(subject.encode()).hexdigest()}@corp"


class TestWhatDoesNot:
    @pytest.mark.parametrize(
        "changes",
        [
            {"aud": "another-api"},
            {"aud": None},
            {"iss": "https://elsewhere.example"},
            {"iss": None},
            {"nbf": FAR_AHEAD},
            {"iat": FAR_AHEAD},
            {"exp": None},
            {"exp": "soon"},
            {"sub": None},
            {"sub": ""},
            {"tenants": None},
            {"tenants": 7},
            {"tenants": [7]},
            {"tenants": [""]},
            {"tenants": ["a\nb"]},
            {"tenants": {"acme": True}},
            {"aud": ["sagabus-api", 7]},
            {"aud": ["sagabus-api-2", "SAGABUS-API", "sagabus-api/"]},
            {"aud": {"sagabus-api": True}},
            {"iss": ["https://elsewhere.example"]},
            {"sub": 7},
            {"sub": ["alice"]},
            {"exp": math.inf},
            {"exp": [FAR_AHEAD]},
            {"nbf": "later"},
            {"iat": -math.inf},
            {"tenants": [["acme"]]},
            {"tenants": "\ud800"},
        ],
        ids=str,
    )
    async def test_claims(self, issuer: LocalIssuer, make: Make, changes: dict[str, Any]) -> None:
        key = OLD
        token = jwt.api_jws.encode(
            json.dumps(issuer.claims(**changes)).encode(),
            key.private,
            key.algorithm,
            headers={"kid": key.kid, "typ": "JWT"},
        )
        assert await refused(make(), token) == "token_invalid"

    async def test_an_issuer_is_who_it_says_character_by_character(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        for name in (issuer.url + "/", issuer.url.upper(), issuer.url + "#", " " + issuer.url):
            assert await refused(make(), issuer.token(OLD, iss=name)) == "token_invalid"
        assert issuer.asked == 0

    async def test_where_a_token_says_its_key_is_nobody_looks(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        """`jku`, `x5u`, `jwk` and `x5c` are the sender's word; a key id is a name, no path."""
        with local_issuer() as evil:
            evil.keys = [NEW.public()]
            own = {"jwk": NEW.public(), "jku": f"{evil.url}/keys", "x5u": f"{evil.url}/x"}
            for kid in (NEW.kid, OLD.kid, f"{evil.url}/keys", "../old", "old\0", "OLD", "old "):
                head = {**own, "kid": kid, "x5c": [text(public_bytes(NEW, "der"))]}
                token = jwt.encode(issuer.claims(), NEW.private, "RS256", headers=head)
                assert await refused(make(), token) == "token_invalid"
            assert evil.asked == 0

    async def test_a_token_that_leaves_its_own_body_out(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        """Unencoded and detached bodies (RFC 7797) are not understood."""
        for head in ({"b64": False}, {"b64": False, "crit": ["b64"]}):
            signed = {"alg": "RS256", "kid": OLD.kid, **head}
            token = unsigned(issuer, signed)
            assert await refused(make(), token) == "token_invalid"
            first, _, last = token.split(".")
            assert await refused(make(), f"{first}..{last}") == "token_invalid"

    async def test_an_old_token_is_told_so_once_its_signature_is_good(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        assert await refused(make(), issuer.token(OLD, exp=LONG_AGO)) == "token_expired"
        forged = SigningKey(OLD.kid, NEW.private, "RS256")
        assert await refused(make(), issuer.token(forged, exp=LONG_AGO)) == "token_invalid"

    async def test_another_signature(self, issuer: LocalIssuer, make: Make) -> None:
        forged = issuer.token(SigningKey(OLD.kid, NEW.private, "RS256"))
        assert await refused(make(), forged) == "token_invalid"

    async def test_no_signature(self, issuer: LocalIssuer, make: Make) -> None:
        for name in ("none", "None", "NONE", ""):
            token = unsigned(issuer, {"alg": name, "kid": OLD.kid})
            assert await refused(make(), token) == "token_invalid"
            assert await refused(make(), token.rpartition(".")[0] + ".") == "token_invalid"
        assert issuer.asked == 0

    @pytest.mark.parametrize("form", ["pem", "der", "jwk"])
    async def test_the_public_key_is_no_shared_secret(
        self, issuer: LocalIssuer, make: Make, form: str
    ) -> None:
        secret = public_bytes(OLD, form)
        head = unsigned(issuer, {"alg": "HS256", "kid": OLD.kid}).rpartition(".")[0]
        seal = hmac.new(secret, head.encode(), hashlib.sha256).digest()
        assert await refused(make(), f"{head}.{text(seal)}") == "token_invalid"

    async def test_a_key_counts_for_its_algorithm_alone(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        issuer.keys = [OLD.public(alg="RS256"), NEW.public(use="enc")]
        wider = make(algorithms=["RS256", "PS256"])
        await wider.verify(issuer.token(OLD))
        other = SigningKey(OLD.kid, OLD.private, "PS256")
        assert await refused(wider, issuer.token(other)) == "token_invalid"
        assert await refused(wider, issuer.token(NEW)) == "token_invalid"

    async def test_an_algorithm_that_is_not_pinned(self, issuer: LocalIssuer, make: Make) -> None:
        token = issuer.token(SigningKey(OLD.kid, OLD.private, "RS512"))
        assert await refused(make(), token) == "token_invalid"

    async def test_a_shared_secret_among_the_keys_is_none_of_ours(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        issuer.keys = [{"kty": "oct", "kid": OLD.kid, "alg": "RS256", "k": text(b"s" * 32)}]
        assert await refused(make(), issuer.token(OLD)) == "token_invalid"

    async def test_critical_headers_are_not_understood(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        head = {"kid": OLD.kid, "crit": ["exp"], "exp": 1}
        token = jwt.encode(issuer.claims(), OLD.private, "RS256", headers=head)
        assert await refused(make(), token) == "token_invalid"

    @pytest.mark.parametrize("head", [{}, {"kid": ""}, {"kid": "x" * 300}, {"jku": "http://a"}])
    async def test_the_key_is_named_by_its_id(
        self, issuer: LocalIssuer, make: Make, head: dict[str, Any]
    ) -> None:
        token = jwt.encode(issuer.claims(), OLD.private, "RS256", headers=head)
        assert await refused(make(), token) == "token_invalid"
        assert issuer.asked == 0

    @pytest.mark.parametrize(
        "token",
        [
            *("x", "a.b", "a.b.c", "a.b.c.d", "....", "é.é.é", "e30.e30.e30", "\0", "a" * 20_000),
            f"{base64.urlsafe_b64encode(b'[' * 9_000).decode()}.e30.e30",
        ],
        ids=range(10),
    )
    async def test_what_is_no_token(self, make: Make, token: str) -> None:
        assert await refused(make(), token) == "token_invalid"

    async def test_a_token_of_another_issuer_under_our_name(
        self, issuer: LocalIssuer, make: Make, http: httpx.AsyncClient
    ) -> None:
        with local_issuer() as other:
            other.keys = [NEW.public()]
            first = make()
            both = TokenVerifier(
                [
                    (each, SigningKeys(each, http))
                    for each in (issuer.settings(), other.settings(name="partner"))
                ]
            )
            assert (await both.verify(other.token(NEW))).actor == "user:alice@partner"
            assert await refused(both, other.token(NEW, iss=issuer.url)) == "token_invalid"
            assert await refused(first, other.token(NEW)) == "token_invalid"


class TestRotation:
    async def test_a_new_key_counts_at_its_first_token(
        self, issuer: LocalIssuer, make: Make, clock: Clock
    ) -> None:
        verifier = make()
        await verifier.verify(issuer.token(OLD))
        issuer.keys = [OLD.public(), NEW.public()]
        clock.now += 11
        await verifier.verify(issuer.token(NEW))
        assert issuer.asked == 2

    async def test_a_withdrawn_key_stops_to_count(
        self, issuer: LocalIssuer, make: Make, clock: Clock
    ) -> None:
        verifier = make()
        await verifier.verify(issuer.token(OLD))
        issuer.keys = [NEW.public()]
        clock.now += 299
        await verifier.verify(issuer.token(OLD))
        clock.now += 2
        assert await refused(verifier, issuer.token(OLD)) == "token_invalid"

    async def test_a_flood_of_forged_key_ids_does_not_reach_the_issuer(
        self, issuer: LocalIssuer, make: Make, clock: Clock
    ) -> None:
        verifier, good = make(), issuer.token(OLD)
        flood = [issuer.token(SigningKey(f"k{n}", NEW.private, "RS256")) for n in range(40)]
        for _ in range(3):
            clock.now += 11
            found = await asyncio.gather(
                *(verifier.verify(token) for token in [*flood, good]), return_exceptions=True
            )
            assert [str(each) for each in found[:-1]] == [str(found[0])] * len(flood)
            assert not isinstance(found[-1], BaseException)
        assert issuer.asked == 3

    async def test_of_two_keys_with_one_id_neither_forges_the_other(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        """An issuer with a key for encryption of the same id signs with the other."""
        issuer.keys = [OLD.public(use="sig"), {**NEW.public(use="enc"), "kid": OLD.kid}]
        await make().verify(issuer.token(OLD))
        forged = SigningKey(OLD.kid, NEW.private, "RS256")
        assert await refused(make(), issuer.token(forged)) == "token_invalid"

    async def test_an_issuer_may_name_its_keys_itself(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        await make(jwks_url=f"{issuer.url}/keys").verify(issuer.token(OLD))


class TestOutage:
    async def test_known_keys_count_for_a_while(
        self, issuer: LocalIssuer, make: Make, clock: Clock
    ) -> None:
        verifier = make(jwks_outage_s=1_000)
        await verifier.verify(issuer.token(OLD))
        issuer.status = 503
        clock.now += 1_200
        await verifier.verify(issuer.token(OLD))
        with pytest.raises(IdentityUnavailable):
            await verifier.verify(issuer.token(NEW))
        clock.now += 200
        with pytest.raises(IdentityUnavailable):
            await verifier.verify(issuer.token(OLD))
        issuer.status = 200
        clock.now += 11
        await verifier.verify(issuer.token(OLD))

    async def test_whoever_comes_first_is_told_to_come_again(
        self, issuer: LocalIssuer, make: Make, clock: Clock
    ) -> None:
        verifier, issuer.status = make(), 500
        assert IdentityUnavailable.retryable
        for _ in range(20):
            with pytest.raises(IdentityUnavailable, match="identity_unavailable"):
                await verifier.verify(issuer.token(OLD))
        assert issuer.asked == 1
        issuer.status = 200
        clock.now += 11
        await verifier.verify(issuer.token(OLD))

    @pytest.mark.parametrize(
        "body",
        [b"", b"{", b"[]", b'{"keys": 7}', b'{"keys": [' + b"{}," * 100 + b"{}]}", b" " * 300_000],
        ids=["empty", "broken", "list", "number", "many", "large"],
    )
    async def test_nonsense_from_the_issuer_is_an_outage(
        self, issuer: LocalIssuer, make: Make, body: bytes, clock: Clock
    ) -> None:
        verifier = make()
        await verifier.verify(issuer.token(OLD))
        issuer.body = body
        clock.now += 301
        await verifier.verify(issuer.token(OLD))
        assert issuer.asked == 2

    async def test_a_key_that_cannot_be_read_takes_no_other_away(
        self, issuer: LocalIssuer, make: Make
    ) -> None:
        broken = {**OLD.public(), "kid": "broken", "n": "?"}
        issuer.keys = [broken, {"kty": "RSA"}, OLD.public()]
        await make().verify(issuer.token(OLD))

    async def test_a_server_that_is_gone(self, http: httpx.AsyncClient) -> None:
        with local_issuer() as gone:
            settings = gone.settings()
        verifier = TokenVerifier([(settings, SigningKeys(settings, http))])
        with pytest.raises(IdentityUnavailable):
            await verifier.verify(gone.token(OLD))


def text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def unsigned(issuer: LocalIssuer, head: dict[str, Any]) -> str:
    parts = (head, issuer.claims())
    return ".".join(text(json.dumps(part).encode()) for part in parts) + ".AAAA"


def public_bytes(key: SigningKey, form: str) -> bytes:
    if form == "jwk":
        return json.dumps(key.public()).encode()
    encoding = serialization.Encoding.PEM if form == "pem" else serialization.Encoding.DER
    return key.private.public_key().public_bytes(
        encoding, serialization.PublicFormat.SubjectPublicKeyInfo
    )
