"""Where the HTTP API answers, and what proves the caller."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from sagabus_cli.errors import UsageError

__all__ = ["ApiAddress", "announcement", "api_of_stack", "proved"]


@dataclass(frozen=True, slots=True)
class ApiAddress:
    """An API and a key or token for it; neither is ever an argument, where `ps` shows it."""

    url: str
    key: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)


def proved(url: str, key_file: Path | None) -> ApiAddress:
    """Return an API with what the environment or a file says about the caller.

    Raises `UsageError` (`invalid_address`, `no_credentials`, `malformed_credentials`,
    `unreadable_file`).
    """
    if not _is_address(url):
        raise UsageError("invalid_address", "--api or SAGABUS_API must look like https://host:port")
    file = key_file or os.environ.get("SAGABUS_API_KEY_FILE")
    if file:
        return ApiAddress(url, key=_checked(_read_key(Path(file)), str(file)))
    if key := os.environ.get("SAGABUS_API_KEY"):
        return ApiAddress(url, key=_checked(key.strip(), "SAGABUS_API_KEY"))
    if token := os.environ.get("SAGABUS_API_TOKEN"):
        return ApiAddress(url, token=_checked(token.strip(), "SAGABUS_API_TOKEN"))
    raise UsageError(
        "no_credentials",
        "the API wants to know who asks: give --api-key-file, SAGABUS_API_KEY_FILE, "
        "SAGABUS_API_KEY or SAGABUS_API_TOKEN",
    )


def _is_address(url: str) -> bool:
    """Say whether it is a plain address: a password in it would be told wherever it is named."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname) and "@" not in parts.netloc


def _checked(secret: str, origin: str) -> str:
    # Else the HTTP library refuses the header in words that quote it.
    if not secret.isascii() or not secret.isprintable() or " " in secret:
        raise UsageError(
            "malformed_credentials", f"{origin} holds one line of ASCII without blanks, no more"
        )
    return secret


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
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as cause:
        raise UsageError("unreadable_file", f"cannot read the API key in {file}") from cause
