"""Bearer tokens: signed JWTs of a configured issuer (RFC 7519, RFC 8725)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NoReturn

import jwt
from jwt.exceptions import ExpiredSignatureError, PyJWTError

from sagabus_orchestrator.api.identity.claims import BadClaim, principal_of
from sagabus_orchestrator.api.identity.config import OidcIssuer
from sagabus_orchestrator.api.identity.errors import Unauthenticated
from sagabus_orchestrator.api.identity.jwks import SigningKeys
from sagabus_orchestrator.api.identity.principal import Principal
from sagabus_runtime import get_logger

__all__ = ["TokenVerifier"]

log = get_logger()

MAX_TOKEN: Final = 16 * 1024
MAX_KID: Final = 256
_REQUIRED: Final = ["iss", "sub", "aud", "exp"]


class TokenVerifier:
    """Says who a token is about, or that it does not count; the log alone says why."""

    def __init__(self, issuers: Sequence[tuple[OidcIssuer, SigningKeys]]) -> None:
        self._issuers = {issuer.issuer: (issuer, keys) for issuer, keys in issuers}
        self._jwt = jwt.PyJWT({"enforce_minimum_key_length": True})

    async def verify(self, token: str) -> Principal:
        """Return the caller.

        Raises `Unauthenticated` (`token_invalid`; `token_expired` if its issuer did sign it) and
        `IdentityUnavailable`.
        """
        header, issuer, keys = self._unverified(token)
        kid, algorithm = header["kid"], header["alg"]
        key = await keys.find(kid, algorithm)
        if key is None:
            _refuse("unknown_key", issuer=issuer.name, kid=kid)
        try:
            claims = self._jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                issuer=issuer.issuer,
                audience=issuer.audience,
                leeway=issuer.leeway_s,
                options={"require": _REQUIRED},
            )
            return principal_of(claims, issuer)
        except ExpiredSignatureError as error:
            log.info("identity.refused", reason="expired", issuer=issuer.name)
            raise Unauthenticated("token_expired", "the token is too old: get a new one") from error
        except PyJWTError as error:
            _refuse(type(error).__name__, issuer=issuer.name, kid=kid)
        except BadClaim as error:
            _refuse("bad_claim", issuer=issuer.name, claim=str(error))

    def _unverified(self, token: str) -> tuple[dict[str, Any], OidcIssuer, SigningKeys]:
        """Return what the token says about itself, as far as it could be true at all."""
        if len(token) > MAX_TOKEN:
            _refuse("too_long")
        try:
            parts = self._jwt.decode_complete(token, options={"verify_signature": False})
        except (PyJWTError, ValueError, RecursionError) as error:
            _refuse("malformed", error=type(error).__name__)
        header, claimed = parts["header"], parts["payload"].get("iss")
        found = self._issuers.get(claimed) if isinstance(claimed, str) else None
        if found is None:
            _refuse("unknown_issuer")
        issuer, keys = found
        if header.get("alg") not in issuer.algorithms:
            _refuse("algorithm", issuer=issuer.name)
        kid = header.get("kid")
        if not isinstance(kid, str) or not 1 <= len(kid) <= MAX_KID:
            _refuse("no_key_id", issuer=issuer.name)
        return header, issuer, keys


def _refuse(reason: str, **fields: str) -> NoReturn:
    log.info("identity.refused", reason=reason, **fields)
    # From nothing: what the library says may quote the token.
    raise Unauthenticated("token_invalid", "the token does not count here") from None
