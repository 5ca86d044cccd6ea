"""The text of an API key: `sgb_` id `_` secret. The id is public, the secret is shown once."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from typing import Final

__all__ = ["KeyText", "hash_secret", "new_key_text", "read_key_text"]

_ID_BYTES: Final = 10
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(r"sgb_(?P<id>[a-z2-7]{16})_(?P<secret>[a-z2-7]{52})")


@dataclass(frozen=True, slots=True)
class KeyText:
    """The two parts of a key; the secret shows in no repr."""

    id: str
    secret: str = field(repr=False)

    def reveal(self) -> str:
        """Return the whole key, for the one who asked for it, once."""
        return f"sgb_{self.id}_{self.secret}"


def new_key_text() -> KeyText:
    """Return a new key: 80 random bits to find it by, 256 to prove it."""
    return KeyText(_text(_ID_BYTES), _text(_SECRET_BYTES))


def read_key_text(text: str) -> KeyText | None:
    """Return the parts of a key, None if it has not the form of one."""
    match = _FORM.fullmatch(text)
    return KeyText(match["id"], match["secret"]) if match else None


def hash_secret(key: KeyText) -> bytes:
    """Return what is stored: SHA-256 of the secret, bound to the id and to this use."""
    return hashlib.sha256(f"sagabus-api-key-v1\n{key.id}\n{key.secret}".encode()).digest()


def _text(count: int) -> str:
    return base64.b32encode(secrets.token_bytes(count)).decode().rstrip("=").lower()
