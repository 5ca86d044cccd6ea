"""Puts identity together: tokens of the configured issuers, and API keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from sagabus_orchestrator.api.identity.config import IdentitySettings
from sagabus_orchestrator.api.identity.errors import Unauthenticated
from sagabus_orchestrator.api.identity.jwks import SigningKeys
from sagabus_orchestrator.api.identity.key_verifier import KeyVerifier
from sagabus_orchestrator.api.identity.principal import Authenticator, Principal
from sagabus_orchestrator.api.identity.tokens import TokenVerifier
from sagabus_store import Database

__all__ = ["HeaderAuthenticator", "open_authenticator"]


class HeaderAuthenticator:
    """An `Authenticator` over the two kinds of credentials."""

    def __init__(self, tokens: TokenVerifier, keys: KeyVerifier) -> None:
        self._tokens = tokens
        self._keys = keys

    async def authenticate(self, authorization: str | None, api_key: str | None) -> Principal:
        """Return the caller that one of the headers proves; see `Authenticator`."""
        if authorization and api_key:
            raise Unauthenticated("credentials_ambiguous", "send a token or an API key, not both")
        if api_key:
            return await self._keys.verify(api_key)
        scheme, _, token = (authorization or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise Unauthenticated(
                "credentials_missing", "send Authorization: Bearer TOKEN, or X-API-Key"
            )
        return await self._tokens.verify(token.strip())


@asynccontextmanager
async def open_authenticator(
    settings: IdentitySettings, database: Database
) -> AsyncIterator[Authenticator]:
    """Lend an authenticator; keys of issuers are fetched when the first token names them."""
    async with httpx.AsyncClient(follow_redirects=False) as http:
        issuers = [(issuer, SigningKeys(issuer, http)) for issuer in settings.oidc_issuers]
        keys = KeyVerifier(database, cache_ms=settings.api_key_cache_ms)
        try:
            yield HeaderAuthenticator(TokenVerifier(issuers), keys)
        finally:
            for _, signing in issuers:
                await signing.close()
