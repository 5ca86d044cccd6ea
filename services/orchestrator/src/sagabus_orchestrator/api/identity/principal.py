"""Who asks, what that caller may do, and for which tenants."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from sagabus_orchestrator.api.identity.errors import PermissionDenied
from sagabus_orchestrator.api.identity.permissions import Permission

__all__ = ["ALL_TENANTS", "KEY_ACTOR", "Authenticator", "Principal", "TenantScope"]

KEY_ACTOR: Final = "key:"
"""How the actor of an API key begins; its name follows."""


@dataclass(frozen=True, slots=True)
class TenantScope:
    """Some tenants, or all of them. Made empty it holds none: all is always said aloud."""

    names: frozenset[str] = frozenset()
    everyone: bool = False

    def __contains__(self, tenant: object) -> bool:
        return self.everyone or tenant in self.names

    def as_filter(self) -> list[str] | None:
        """Return the names for SQL (`$1::text[] is null or tenant = any($1)`), None for all."""
        return None if self.everyone else sorted(self.names)


ALL_TENANTS = TenantScope(everyone=True)


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller. `actor` (`user:alice@corp`, `key:ci`) is what audit facts say."""

    actor: str
    permissions: frozenset[Permission]
    tenants: TenantScope
    until: datetime | None = None
    """When the key that proved the caller expires; None for a person, or a key without an end."""

    def require(self, permission: Permission) -> None:
        """Return if the caller holds the permission; else raise `PermissionDenied`."""
        self.require_any((permission,))

    def require_any(self, permissions: Collection[Permission]) -> None:
        """Return if the caller holds one of the permissions; else raise `PermissionDenied`."""
        if self.permissions.isdisjoint(permissions):
            needed = " or ".join(sorted(permissions))
            raise PermissionDenied("permission_denied", f"this takes the permission {needed}")

    def require_tenant(self, tenant: str) -> None:
        """Return if the tenant is the caller's; else raise `PermissionDenied`.

        For what is made anew (a start, a definition). What exists already is looked for instead,
        and looks absent unless the caller `sees` its tenant.
        """
        if tenant not in self.tenants:
            raise PermissionDenied("permission_denied", "the tenant named is not one of yours")

    def require_all_tenants(self) -> None:
        """Return if every tenant is the caller's; else raise `PermissionDenied`.

        For what touches everybody (definitions for all tenants, a participant on hold), and for
        the limits of tenants, which the limited do not set.
        """
        if not self.tenants.everyone:
            raise PermissionDenied("permission_denied", "this concerns all tenants")

    def sees(self, tenant: str) -> bool:
        """Say whether data of the tenant exists, as far as this caller is concerned."""
        return tenant in self.tenants


class Authenticator(Protocol):
    """Finds out who asks. Safe to call from many requests at once."""

    async def authenticate(self, authorization: str | None, api_key: str | None) -> Principal:
        """Return the caller that the headers Authorization and X-API-Key prove.

        Raises `Unauthenticated`: `credentials_missing`, `credentials_ambiguous` (both headers),
        `token_expired` (genuine, but too old), `token_invalid` or `key_invalid` for everything
        else, and `IdentityUnavailable` (`identity_unavailable`) while the issuer cannot be asked.
        """
