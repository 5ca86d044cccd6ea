"""From the claims of a genuine token to the caller: pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_key
from sagabus_orchestrator.api.identity.config import OidcIssuer
from sagabus_orchestrator.api.identity.permissions import permissions_of
from sagabus_orchestrator.api.identity.principal import ALL_TENANTS, Principal, TenantScope

__all__ = ["BadClaim", "principal_of"]

ACTOR_MAX: Final = 128
_MISSING: Final = object()


class BadClaim(Exception):
    """A claim is missing or malformed; the text says which, for the log."""


def principal_of(claims: Mapping[str, Any], issuer: OidcIssuer) -> Principal:
    """Return the caller that the claims describe. Raises `BadClaim`.

    The claim of tenants is required; roles that nobody knows permit nothing.
    """
    return Principal(
        actor=_actor(claims.get("sub"), issuer.name),
        permissions=permissions_of(_roles(claims, issuer)),
        tenants=_tenants(claims, issuer),
    )


def _actor(subject: object, issuer: str) -> str:
    if not isinstance(subject, str) or not subject:
        raise BadClaim("sub")
    actor = f"user:{subject}@{issuer}"
    if len(actor) <= ACTOR_MAX and actor.isprintable():
        return actor
    # Subjects may be any 255 characters; audit facts take 128 printable ones.
    return f"user-sha256:{hashlib.sha256(subject.encode(errors='replace')).hexdigest()}@{issuer}"


def _tenants(claims: Mapping[str, Any], issuer: OidcIssuer) -> TenantScope:
    found = _find(claims, issuer.tenants_claim)
    names = [found] if isinstance(found, str) else found
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BadClaim(issuer.tenants_claim)
    if issuer.all_tenants is not None and issuer.all_tenants in names:
        return ALL_TENANTS
    try:
        return TenantScope(frozenset(check_key(name, "tenant") for name in names))
    except InvalidValue:
        raise BadClaim(issuer.tenants_claim) from None


def _roles(claims: Mapping[str, Any], issuer: OidcIssuer) -> Iterator[str]:
    found = _find(claims, issuer.roles_claim)
    names = found.split() if isinstance(found, str) else found
    if not isinstance(names, list):
        return
    for name in names:
        if isinstance(name, str):
            yield from issuer.roles.get(name, ()) if issuer.roles else (name,)


def _find(claims: Mapping[str, Any], claim: str) -> object:
    """Return a claim by its name, or by a path of names that begins with a slash."""
    if not claim.startswith("/"):
        return claims.get(claim, _MISSING)
    found: object = claims
    for name in claim[1:].split("/"):
        found = found.get(name, _MISSING) if isinstance(found, Mapping) else _MISSING
    return found
