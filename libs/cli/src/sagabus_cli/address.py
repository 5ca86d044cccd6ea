"""Where the HTTP API answers, and what proves the caller."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sagabus_cli.errors import UsageError

__all__ = ["ApiAddress", "announcement", "api_of_stack", "proved"]


_NEW_KEY: Final = "make one under another name: sagabus keys create"
_MENDS: Final[Mapping[str, str]] = {
    "credentials_missing": "name an API key or a token",
    "key_invalid": "look for a key that is cut or of another system, or make one: sagabus keys "
    "create",
    "key_expired": _NEW_KEY,
    "key_revoked": _NEW_KEY,
    "token_expired": "get a new token",
    "token_invalid": "get a token for this API, of an issuer that it trusts",
    "permission_denied": "use a key that may (sagabus keys create --grant), or ask who has one",
}


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """An API and a key or token for it; neither is ever an argument, where `ps` shows it."""

    url: str
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    origin: str = "this caller"
    """Where key or token come from, for people."""

    def explained(self, code: str, detail: str) -> str:
        """Return what the API said about a caller, with whose key that was and how to mend it."""
        mend = _MENDS.get(code)
        return detail if mend is None else f"{detail} ({self.origin}): {mend}"

    def unreachable(self, why: str) -> str:
        """Return a sentence about an API that does not answer."""
        return (
            f"the API at {self.url} is out of reach ({why}): start it, or correct --api or "
            "SAGABUS_API; --direct works on the database"
        )

    def is_another(self, status: int) -> str:
        """Return a sentence about something else that answers there."""
        return (
            f"what answers at {self.url} is not the API of sagabus (status {status}): correct "
            "--api or SAGABUS_API"
        )


def proved(url: str, key_file: Path | None) -> ApiAddress:
    """Return an API with what the environment or a file says about the caller.

    Raises `UsageError` (`invalid_address`, `no_credentials`, `unreadable_file`).
    """
    _check(url)
    file = key_file or os.environ.get("SAGABUS_API_KEY_FILE")
    if file:
        origin = f"the key in {file}"
        return ApiAddress(url, key=_sendable(_read_key(Path(file)), origin), origin=origin)
    if key := os.environ.get("SAGABUS_API_KEY"):
        origin = "the key of SAGABUS_API_KEY"
        return ApiAddress(url, key=_sendable(key, origin), origin=origin)
    if token := os.environ.get("SAGABUS_API_TOKEN"):
        origin = "the token of SAGABUS_API_TOKEN"
        return ApiAddress(url, token=_sendable(token, origin), origin=origin)
    raise UsageError(
        "no_credentials",
        "the API wants to know who asks: give --api-key-file, SAGABUS_API_KEY_FILE, "
        "SAGABUS_API_KEY or SAGABUS_API_TOKEN",
    )


def _check(url: str) -> None:
    told = "--api or SAGABUS_API must look like https://host:port"
    try:
        parts = urlsplit(url)
        host, scheme = parts.hostname, parts.scheme
        good = scheme in {"http", "https"} and bool(host) and parts.port != 0
    except ValueError as cause:
        raise UsageError("invalid_address", told) from cause
    if not good or not url.isprintable() or " " in url:
        raise UsageError("invalid_address", told)
    if "@" in parts.netloc:
        # Addresses are shown in errors and logs.
        raise UsageError("invalid_address", f"{told}, without a name or password in it")


def _sendable(secret: str, origin: str) -> str:
    """Return a secret that a header can carry; its text is in no error."""
    bare = secret.strip()
    if not bare:
        raise UsageError("no_credentials", f"{origin} is empty")
    if not bare.isascii() or not bare.isprintable() or " " in bare:
        # Else the HTTP library refuses the header in words that quote it.
        raise UsageError("malformed_credentials", f"{origin} is not one word of ASCII in one line")
    return bare


def announcement(directory: str | Path) -> Path:
    """Return the file in which `sagabus services` announces the API of its stack."""
    return Path(directory) / "api.json"


def api_of_stack(name: str) -> ApiAddress | None:
    """Return the API of a running local stack with its own key, None where none is announced."""
    from sagabus_testkit.stack.record import read_record  # noqa: PLC0415 - seldom needed

    record = read_record(name)
    if record is None:
        return None
    try:
        found = json.loads(announcement(record.directory).read_text())
        url, key_file = str(found["url"]), Path(found["key_file"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return proved(url, key_file)


def _read_key(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as cause:
        raise UsageError("unreadable_file", f"cannot read the API key in {file}") from cause
