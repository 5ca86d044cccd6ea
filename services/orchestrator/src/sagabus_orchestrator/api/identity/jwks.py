"""The public keys of one issuer: fetched when needed, believed for a while, rotated, bounded.

Two clocks matter. A key that a token names and nobody knows is looked for at once, but at most
once per `jwks_min_interval_s`: a flood of forged key ids costs the issuer one request in that time.
Known keys are fetched again after `jwks_max_age_s`; while that fails they count until
`jwks_outage_s` has passed since the last success.
"""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections.abc import Callable
from typing import Any, Final

import httpx
from jwt import PyJWK
from jwt.exceptions import PyJWTError

from sagabus_orchestrator.api.identity.config import OidcIssuer
from sagabus_orchestrator.api.identity.errors import IdentityUnavailable
from sagabus_runtime import get_logger

__all__ = ["SigningKeys"]

log = get_logger()

DISCOVERY: Final = "/.well-known/openid-configuration"
FETCH_TIMEOUT_S: Final = 3.0
MAX_BYTES: Final = 256 * 1024
MAX_KEYS: Final = 100
_KEY_TYPES: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class _Unreadable(Exception):
    """The issuer answered, but not with what the standard says."""


class SigningKeys:
    """Keys of an issuer by (key id, algorithm). Safe for many requests at once: one fetches."""

    def __init__(
        self,
        issuer: OidcIssuer,
        http: httpx.AsyncClient,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._issuer = issuer
        self._http = http
        self._clock = clock
        self._keys: dict[tuple[str, str], PyJWK] = {}
        self._fetched_at = -math.inf
        self._tried_at = -math.inf
        self._failing = False
        self._flight: asyncio.Task[None] | None = None

    async def find(self, kid: str, algorithm: str) -> PyJWK | None:
        """Return the key, or None if the issuer has none of this id for this algorithm.

        Raises `IdentityUnavailable` if that cannot be told now: the issuer is out of reach and the
        key is not known, or was seen too long ago.
        """
        name = (kid, algorithm)
        if self._needs_fetch(name):
            flight = self._launch()
            # While the issuer does not answer, nobody whose key is known waits for it again.
            if self._usable(name) is None or not self._failing:
                # A caller that hangs up must not take the answer away from the others.
                await asyncio.shield(flight)
        key = self._usable(name)
        if key is None and self._failing:
            raise IdentityUnavailable(
                "identity_unavailable", "the issuer's keys are out of reach: try again later"
            )
        return key

    async def close(self) -> None:
        """Give up a fetch under way."""
        if self._flight is not None:
            self._flight.cancel()
            await asyncio.wait([self._flight])

    def _needs_fetch(self, name: tuple[str, str]) -> bool:
        if name in self._keys and self._age() <= self._issuer.jwks_max_age_s:
            return False
        waited_s = self._clock() - self._tried_at
        return self._flight is not None or waited_s >= self._issuer.jwks_min_interval_s

    def _usable(self, name: tuple[str, str]) -> PyJWK | None:
        too_old = self._age() > self._issuer.jwks_max_age_s + self._issuer.jwks_outage_s
        return None if too_old else self._keys.get(name)

    def _age(self) -> float:
        return self._clock() - self._fetched_at

    def _launch(self) -> asyncio.Task[None]:
        """Return the fetch under way; begin one if there is none."""
        if self._flight is None:
            self._tried_at = self._clock()
            self._flight = asyncio.create_task(self._fetch())
        return self._flight

    async def _fetch(self) -> None:
        begun_at, failing = self._tried_at, True
        try:
            async with asyncio.timeout(FETCH_TIMEOUT_S):
                document = await self._get(await self._jwks_url())
            self._keys = _read_keys(document, self._issuer)
            self._fetched_at, failing = begun_at, False
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, _Unreadable) as error:
            log.warning(
                "identity.keys_unreachable", issuer=self._issuer.name, reason=_describe(error)
            )
        finally:
            self._flight, self._failing = None, failing

    async def _jwks_url(self) -> str:
        if self._issuer.jwks_url is not None:
            return self._issuer.jwks_url
        found = await self._get(self._issuer.issuer.rstrip("/") + DISCOVERY)
        url = found.get("jwks_uri")
        if found.get("issuer") != self._issuer.issuer or not isinstance(url, str):
            raise _Unreadable("the discovery document is another issuer's or names no keys")
        if self._issuer.issuer.startswith("https:") and not url.startswith("https:"):
            raise _Unreadable("the discovery document leads away from https")
        return url

    async def _get(self, url: str) -> dict[str, Any]:
        body = bytearray()
        async with self._http.stream("GET", url) as response:
            if response.status_code != httpx.codes.OK:
                raise _Unreadable(f"HTTP status {response.status_code}")
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MAX_BYTES:
                    raise _Unreadable(f"more than {MAX_BYTES} bytes")
        try:
            document = json.loads(body)
        except (ValueError, RecursionError):
            raise _Unreadable("no JSON") from None
        if not isinstance(document, dict):
            raise _Unreadable("no JSON object")
        return document


def _read_keys(document: dict[str, Any], issuer: OidcIssuer) -> dict[tuple[str, str], PyJWK]:
    listed = document.get("keys")
    if not isinstance(listed, list) or len(listed) > MAX_KEYS:
        raise _Unreadable(f"no list of at most {MAX_KEYS} keys")
    found: dict[tuple[str, str], PyJWK] = {}
    for data in listed:
        for algorithm in issuer.algorithms:
            if isinstance(data, dict) and _fits(data, algorithm):
                _add(found, data, algorithm)
    return found


def _fits(data: dict[str, Any], algorithm: str) -> bool:
    """Say whether a key is for checking signatures of this algorithm, by what it says itself."""
    return (
        isinstance(data.get("kid"), str)
        and data.get("kty") == _KEY_TYPES[algorithm[:2]]
        and data.get("alg") in {None, algorithm}
        and data.get("use") in {None, "sig"}
    )


def _add(found: dict[tuple[str, str], PyJWK], data: dict[str, Any], algorithm: str) -> None:
    public = {name: value for name, value in data.items() if name != "d"}
    try:
        found[data["kid"], algorithm] = PyJWK(public, algorithm)
    except PyJWTError as error:
        # One key that we cannot read must not take the others away.
        log.warning("identity.key_unreadable", kid=data["kid"], reason=_describe(error))


def _describe(error: Exception) -> str:
    # Not the text of a key error: it holds the key.
    text = str(error) if isinstance(error, (_Unreadable, httpx.HTTPError)) else ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
