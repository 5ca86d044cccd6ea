"""Optional Ed25519 signatures of records: who wrote it, and that nobody changed it (RFC 8032).

The header `sagabus-signature` is `v1;<key id>;<base64url of 64 bytes, no padding>`. Signed is a
list of byte strings, each behind its length (4 bytes, big-endian; 0xFFFFFFFF where it is absent):
the text `sagabus-signature-v1`, the key id, the topic, the record key, the headers of
`SIGNED_HEADERS` in that order, the value. Trace headers are not signed: proxies may change them.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from sagabus_messages.errors import MessageError
from sagabus_messages.record import Headers, OutboxRow, Record
from sagabus_messages.strict_json import parse_strict

__all__ = [
    "SIGNATURE_HEADER",
    "SIGNED_HEADERS",
    "UNVERIFIED",
    "SignatureMode",
    "Signer",
    "UnknownSigningKey",
    "Verifier",
    "VerifyKey",
    "read_verify_keys",
    "signed_bytes",
]

SIGNATURE_HEADER: Final = "sagabus-signature"
SIGNED_HEADERS: Final = (
    *("ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject", "ce_time"),
    *("ce_dataschema", "content-type", "sagabus-redrive", "sagabus-start-source"),
)
_LABEL: Final = b"sagabus-signature-v1"
_ABSENT: Final = b"\xff\xff\xff\xff"
_LENGTH: Final = struct.Struct(">I")
_KEY_ID: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_FORM: Final = re.compile(rb"v1;(?P<id>[a-z0-9][a-z0-9._-]{0,63});(?P<signature>[A-Za-z0-9_-]{86})")


class SignatureMode(StrEnum):
    """What a reader asks of records.

    `off`: signatures are not looked at. `accept`: one that is there must be good. `require`: each
    record must have one. To introduce them: `accept`, let every writer sign, then `require`.
    """

    OFF = "off"
    ACCEPT = "accept"
    REQUIRE = "require"


class UnknownSigningKey(MessageError):
    """A signature by a key that this reader does not know (`signature_invalid`), or not yet."""


@dataclass(frozen=True, slots=True)
class VerifyKey:
    """A public key and whose records it may sign: a ce_source."""

    id: str
    source: str
    public_key: bytes

    def __post_init__(self) -> None:
        """Refuse what is no key (`invalid_signing_key`)."""
        if len(self.public_key) != 32:
            raise MessageError(
                "invalid_signing_key", f"key {self.id!r}: 32 bytes of an Ed25519 public key"
            )
        _check_id(self.id)


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs what one writer writes, in the process that decided it."""

    key_id: str
    _private: Ed25519PrivateKey = field(repr=False)

    @classmethod
    def of(cls, key_id: str, seed: bytes) -> Signer:
        """Return a signer from the 32 bytes of a private key. Raises `invalid_signing_key`."""
        _check_id(key_id)
        if len(seed) != 32:
            raise MessageError("invalid_signing_key", "an Ed25519 private key has 32 bytes")
        return cls(key_id, Ed25519PrivateKey.from_private_bytes(seed))

    @classmethod
    def of_pem(cls, key_id: str, pem: bytes) -> Signer:
        """Return a signer from an unencrypted PKCS#8 key. Raises `invalid_signing_key`."""
        _check_id(key_id)
        try:
            found = load_pem_private_key(pem, password=None)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            found = None
        if not isinstance(found, Ed25519PrivateKey):
            raise MessageError("invalid_signing_key", "an Ed25519 private key in PEM (PKCS#8)")
        return cls(key_id, found)

    def verify_key(self, source: str) -> VerifyKey:
        """Return the public key by which readers know this signer as `source`."""
        return VerifyKey(self.key_id, source, self._private.public_key().public_bytes_raw())

    def sign(self, row: OutboxRow) -> OutboxRow:
        """Return the row with its signature as the last header."""
        text = signed_bytes(self.key_id, row.topic, row.key, row.headers, row.value)
        signature = base64.urlsafe_b64encode(self._private.sign(text)).rstrip(b"=")
        header = (SIGNATURE_HEADER, b"v1;%s;%s" % (self.key_id.encode(), signature))
        return OutboxRow(row.topic, row.key, (*row.headers, header), row.value)


class Verifier:
    """Checks records against the keys that count; several per source may, while one is replaced."""

    def __init__(self, mode: SignatureMode, keys: Sequence[VerifyKey] = ()) -> None:
        self.mode = mode
        self._keys: Mapping[str, tuple[VerifyKey, Ed25519PublicKey]] = {
            key.id: (key, Ed25519PublicKey.from_public_bytes(key.public_key)) for key in keys
        }
        if len(self._keys) != len(keys):
            raise MessageError("invalid_signing_key", "two keys have the same id")

    @property
    def key_ids(self) -> list[str]:
        """The ids of the keys that count, sorted."""
        return sorted(self._keys)

    def check(self, record: Record) -> None:
        """Return if the record may be believed.

        Raises `MessageError`: `signature_missing` where one is required, `signature_invalid` for
        one that is malformed, of an unknown key (`UnknownSigningKey`), of another source's key, or
        does not fit.
        """
        if self.mode is SignatureMode.OFF:
            return
        found = [value for name, value in record.headers if name == SIGNATURE_HEADER]
        if not found:
            if self.mode is SignatureMode.REQUIRE:
                raise MessageError("signature_missing", f"sign it: header {SIGNATURE_HEADER}")
            return
        match = _FORM.fullmatch(found[0])
        if len(found) > 1 or match is None:
            raise _invalid("the header is malformed or stands twice")
        self._check(record, match["id"].decode(), match["signature"])

    def _check(self, record: Record, key_id: str, encoded: bytes) -> None:
        key, public = self._keys.get(key_id, (None, None))
        if key is None or public is None:
            unknown = _invalid(f"key {key_id!r} is not known here")
            raise UnknownSigningKey(unknown.code, unknown.detail)
        if record.header("ce_source") != key.source.encode():
            raise _invalid(f"key {key_id!r} belongs to another source")
        text = signed_bytes(key_id, record.topic, record.key, record.headers, record.value)
        try:
            public.verify(base64.urlsafe_b64decode(encoded + b"=="), text)
        except (InvalidSignature, binascii.Error):
            raise _invalid(f"it does not fit the record under key {key_id!r}") from None


UNVERIFIED: Final = Verifier(SignatureMode.OFF)
"""Looks at no signature."""


def read_verify_keys(text: bytes) -> list[VerifyKey]:
    """Return the keys of a JSON file: `{"keys": [{"id", "source", "public_key"}]}`.

    `public_key` is base64 of the 32 bytes. Raises `MessageError` (`invalid_signing_key`, or what
    is wrong with the JSON).
    """
    document = parse_strict(text)
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        raise MessageError("invalid_signing_key", 'write {"keys": [...]}')
    return [_verify_key(entry) for entry in listed]


def _verify_key(entry: object) -> VerifyKey:
    fields = entry if isinstance(entry, dict) else {}
    values = [fields.get(name) for name in ("id", "source", "public_key")]
    try:
        key_id, source, encoded = (value for value in values if isinstance(value, str))
        public = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise MessageError(
            "invalid_signing_key", "each key has texts id, source and public_key (base64)"
        ) from None
    return VerifyKey(key_id, source, public)


def signed_bytes(
    key_id: str, topic: str, key: bytes | None, headers: Headers, value: bytes | None
) -> bytes:
    """Return the bytes that a signature covers."""
    found = dict(reversed(headers))
    parts = [
        *(_LABEL, key_id.encode(), topic.encode(), key),
        *(found.get(name) for name in SIGNED_HEADERS),
        value,
    ]
    return b"".join(_ABSENT if part is None else _LENGTH.pack(len(part)) + part for part in parts)


def _check_id(key_id: str) -> None:
    if _KEY_ID.fullmatch(key_id) is None:
        raise MessageError("invalid_signing_key", f"key id {key_id!r} must match {_KEY_ID.pattern}")


def _invalid(why: str) -> MessageError:
    return MessageError("signature_invalid", f"the signature does not count: {why}")
