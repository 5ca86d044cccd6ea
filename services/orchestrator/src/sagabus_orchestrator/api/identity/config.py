"""Settings of identity: whose tokens count, and how long a looked-up API key is believed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_settings import NoDecode

from sagabus_orchestrator.api.identity.permissions import Role
from sagabus_runtime import ServiceSettings

__all__ = ["Algorithm", "IdentitySettings", "OidcIssuer"]

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
"""Signatures by a private key only: `none` and shared secrets (HMAC) are not even nameable."""


def _check_url(value: str) -> str:
    parts = urlsplit(value)
    loopback = parts.hostname in {"localhost", "127.0.0.1", "::1"}
    if not parts.hostname or parts.scheme not in ({"http", "https"} if loopback else {"https"}):
        raise ValueError("must be an https URL (http for loopback only)")
    return value


Url = Annotated[str, AfterValidator(_check_url)]


class OidcIssuer(BaseModel):
    """One OpenID Connect issuer; claims are named plainly (`roles`) or by a path (`/a/roles`)."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]{0,31}$")
    """Short name, as in the actor `user:alice@corp`; chosen once, audit facts keep it."""
    issuer: Url
    """The `iss` of its tokens, compared character by character."""
    audience: str = Field(min_length=1)
    """The `aud` that stands for this API."""
    jwks_url: Url | None = None
    """Where its keys are; without it, the issuer's `/.well-known/openid-configuration` tells."""
    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    """The only signatures that count."""
    tenants_claim: str = "tenants"
    """The claim with the tenants of the caller: a text or a list of texts. Required."""
    all_tenants: str | None = None
    """The value of that claim that stands for all tenants, for example `*`; without it, none."""
    roles_claim: str = "roles"
    """The claim with the roles of the caller: a list of texts, or one text with blanks."""
    roles: Mapping[str, tuple[Role, ...]] = Field(default_factory=dict)
    """Roles of sagabus by the issuer's names; empty: the issuer uses the names of sagabus."""
    leeway_s: int = Field(default=30, ge=0, le=300)
    """How far its clock and ours may be apart."""
    jwks_max_age_s: int = Field(default=300, ge=1, le=86_400)
    """When known keys are fetched again, so that a withdrawn one stops to count."""
    jwks_min_interval_s: int = Field(default=10, ge=1, le=3_600)
    """At most one fetch in this time, whatever keys forged tokens name."""
    jwks_outage_s: int = Field(default=3_600, ge=0, le=604_800)
    """How long known keys count while the issuer cannot be reached."""


def _parse(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        raise ValueError("must be a JSON list of issuers") from None


def _check_distinct(issuers: tuple[OidcIssuer, ...]) -> tuple[OidcIssuer, ...]:
    for field in ("name", "issuer"):
        values: list[Any] = [getattr(each, field) for each in issuers]
        if len(set(values)) != len(values):
            raise ValueError(f"two issuers have the same {field}")
    return issuers


class IdentitySettings(ServiceSettings):
    """Who may call the API. Without an issuer, API keys alone count; nothing is open."""

    oidc_issuers: Annotated[
        tuple[OidcIssuer, ...], NoDecode, BeforeValidator(_parse), AfterValidator(_check_distinct)
    ] = ()
    """JSON list of OIDC issuers: `name`, `issuer`, `audience`, ...; see the README."""
    api_key_cache_ms: int = Field(default=5_000, ge=0, le=60_000)
    """How long a looked-up API key is believed: a revoked one counts no longer than this."""
