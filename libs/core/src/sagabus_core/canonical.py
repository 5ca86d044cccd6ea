"""Canonical JSON (RFC 8785) and SHA-256 digests over it."""

from __future__ import annotations

import hashlib
import json.encoder
from collections.abc import Sequence
from typing import TypeAlias

import rfc8785

from sagabus_core.errors import InvalidValue

__all__ = ["MAX_SAFE_INTEGER", "JsonValue", "canonical_bytes", "canonical_scalars", "sha256_hex"]

JsonValue: TypeAlias = (
    bool | int | float | str | Sequence["JsonValue"] | dict[str, "JsonValue"] | None
)

MAX_SAFE_INTEGER = 2**53 - 1
"""Largest magnitude of a JSON number that every language reads alike (RFC 8785, RFC 7493)."""

_quoted = json.encoder.encode_basestring


def canonical_bytes(value: JsonValue) -> bytes:
    """Return the RFC 8785 canonical UTF-8 bytes of a JSON value.

    Raises `InvalidValue` (`not_canonicalisable`) for a value that I-JSON cannot carry: an integer
    beyond +-(2^53-1), a non-finite number, a lone surrogate, or a type that is not JSON.
    """
    try:
        return rfc8785.dumps(value)
    except (rfc8785.CanonicalizationError, UnicodeEncodeError) as cause:
        raise InvalidValue(
            "not_canonicalisable",
            f"the value has no canonical JSON form ({cause}); send large numbers as text",
        ) from cause


def canonical_scalars(values: Sequence[str | int | None]) -> bytes:
    """Return the RFC 8785 bytes of a flat array of texts, safe integers and nulls.

    For such an array the canonical form is the compact form of the standard encoder, which is
    thirty times faster than the general one; a property test holds the two equal.
    """
    parts = [
        _quoted(value) if value.__class__ is str else "null" if value is None else _scalar(value)
        for value in values
    ]
    try:
        return f"[{','.join(parts)}]".encode()
    except UnicodeEncodeError as cause:
        raise InvalidValue("not_canonicalisable", "the text holds a lone surrogate") from cause


def _scalar(value: str | int) -> str:
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise InvalidValue("not_canonicalisable", f"{type(value).__name__} is no scalar of an id")
    return _quoted(value)


def sha256_hex(data: bytes) -> str:
    """Return the SHA-256 of `data` as 64 lower-case hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()
