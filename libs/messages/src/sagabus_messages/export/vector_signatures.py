"""Golden vectors of signatures: keys, the bytes that are signed, the header."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sagabus_messages.record import Headers, OutboxRow
from sagabus_messages.signatures import Signer, signed_bytes

__all__ = ["signature_vectors"]

_SEED: Final = hashlib.sha256(b"sagabus: a key for vectors, never for records").digest()
_SHORT: Final[Headers] = (("ce_id", b"x"), ("unsigned", b"anything"))
_FULL: Final[Headers] = (
    ("ce_specversion", b"1.0"),
    ("ce_id", b"6a0a4b0e-8a55-5e0c-9f0c-2f9d5a0c1b11"),
    ("ce_source", b"urn:sagabus:payment"),
    ("ce_type", b"sagabus.result.v1"),
    ("ce_subject", b"1b4e28ba-2fa1-51d2-883f-0016d3cca427"),
    ("ce_time", b"2026-01-31T12:00:00.000Z"),
    ("ce_dataschema", b"urn:sagabus:schema:result:v1"),
    ("content-type", b"application/json"),
    ("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
)
_ROWS: Final = (
    OutboxRow("t", None, (), None),
    OutboxRow("t", b"", _SHORT, b""),
    OutboxRow("sagabus.result.payment.v1", b"1b4e28ba-2fa1-51d2-883f-0016d3cca427", _FULL, b"{}"),
)


def signature_vectors() -> dict[str, Any]:
    """Return a key and what it signs. The seed is public: it must never sign a real record."""
    signer = Signer.of("vectors-1", _SEED)
    public = Ed25519PrivateKey.from_private_bytes(_SEED).public_key().public_bytes_raw()
    return {
        "key_id": signer.key_id,
        "private_key_hex": _SEED.hex(),
        "public_key_hex": public.hex(),
        "vectors": [_vector(signer, row) for row in _ROWS],
    }


def _vector(signer: Signer, row: OutboxRow) -> dict[str, Any]:
    signed = signed_bytes(signer.key_id, row.topic, row.key, row.headers, row.value)
    return {
        "topic": row.topic,
        "key_hex": None if row.key is None else row.key.hex(),
        "headers": [[name, value.decode()] for name, value in row.headers],
        "value_hex": None if row.value is None else row.value.hex(),
        "signed_hex": signed.hex(),
        "header": signer.sign(row).headers[-1][1].decode(),
    }
