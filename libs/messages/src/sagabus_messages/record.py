"""Kafka records as plain values: what a consumer hands over and what a producer is given."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

__all__ = ["Headers", "OutboxRow", "Record", "pack_headers", "unpack_headers"]

Headers: TypeAlias = tuple[tuple[str, bytes], ...]

_LENGTH = struct.Struct(">I")
_SHORT = tuple(_LENGTH.pack(length) for length in range(256))


@dataclass(frozen=True, slots=True)
class Record:
    """One consumed record with its position; `timestamp_ms` is the broker's, for logs only."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int

    def header(self, name: str) -> bytes | None:
        """Return the first header of this name, or None."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """One record to be published: appended to an outbox in the transaction of its cause."""

    topic: str
    key: bytes | None
    headers: Headers
    value: bytes | None


def pack_headers(headers: Headers) -> bytes:
    """Return headers as length-prefixed bytes: the `headers` column of every outbox table."""
    parts: list[bytes] = []
    for name, value in headers:
        length = len(value)
        parts += (
            _packed_name(name),
            _SHORT[length] if length < 256 else _LENGTH.pack(length),
            value,
        )
    return b"".join(parts)


def unpack_headers(packed: bytes) -> Headers:
    """Return what `pack_headers` packed."""
    length, position, end = _LENGTH.unpack_from, 0, len(packed)
    headers: list[tuple[str, bytes]] = []
    while position < end:
        name_at = position + _LENGTH.size
        name_end = name_at + length(packed, position)[0]
        value_at = name_end + _LENGTH.size
        position = value_at + length(packed, name_end)[0]
        headers.append((_text(packed[name_at:name_end]), packed[value_at:position]))
    return tuple(headers)


@lru_cache(maxsize=256)
def _packed_name(name: str) -> bytes:
    encoded = name.encode()
    return _LENGTH.pack(len(encoded)) + encoded


@lru_cache(maxsize=256)
def _text(name: bytes) -> str:
    return name.decode()
