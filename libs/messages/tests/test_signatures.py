"""Signatures: whatever is changed, moved, taken from another or left out does not count."""

from dataclasses import replace
from typing import Any

import pytest

from sagabus_messages import (
    SIGNATURE_HEADER,
    Headers,
    MessageError,
    OutboxRow,
    Record,
    SignatureMode,
    Signer,
    Verifier,
    VerifyKey,
)

SEEDS = {"payment-1": b"1" * 32, "payment-2": b"2" * 32, "shipping-1": b"3" * 32}
SIGNERS = {name: Signer.of(name, seed) for name, seed in SEEDS.items()}
KEYS = [
    VerifyKey(name, f"urn:sagabus:{name[:-2]}", signer._private.public_key().public_bytes_raw())
    for name, signer in SIGNERS.items()
]
HEADERS: Headers = (
    ("ce_id", b"1"),
    ("ce_source", b"urn:sagabus:payment"),
    ("content-type", b"application/json"),
    ("traceparent", b"00"),
)
ROW = OutboxRow("sagabus.result.payment.v1", b"saga", HEADERS, b'{"a": 1}')


def record(row: OutboxRow, **changes: Any) -> Record:
    return replace(Record(row.topic, 0, 0, row.key, row.value, row.headers, 0), **changes)


def check(found: Record, mode: SignatureMode = SignatureMode.REQUIRE) -> str | None:
    try:
        Verifier(mode, KEYS).check(found)
    except MessageError as error:
        return error.code
    return None


def with_header(headers: Headers, name: str, value: bytes) -> Headers:
    return tuple((key, value if key == name else old) for key, old in headers)


@pytest.mark.parametrize("key_id", ["payment-1", "payment-2"])
def test_any_key_of_the_source_counts(key_id: str) -> None:
    assert check(record(SIGNERS[key_id].sign(ROW))) is None


def test_what_is_not_signed_may_change() -> None:
    signed = SIGNERS["payment-1"].sign(ROW).headers
    changed = (*with_header(signed, "traceparent", b"01"), ("more", b"x"))
    assert check(record(ROW, headers=changed)) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"topic": "staging.sagabus.result.payment.v1"},
        {"key": b"other"},
        {"key": None},
        {"value": b'{"a": 2}'},
        {"value": None},
    ],
    ids=str,
)
def test_what_is_signed_may_not(changes: dict[str, Any]) -> None:
    signed = SIGNERS["payment-1"].sign(ROW)
    assert check(record(signed, **changes)) == "signature_invalid"


@pytest.mark.parametrize("name", ["ce_id", "content-type", "ce_source"])
def test_signed_headers_may_not(name: str) -> None:
    signed = SIGNERS["payment-1"].sign(ROW).headers
    for headers in (
        with_header(signed, name, b"urn:sagabus:shipping"),
        tuple(pair for pair in signed if pair[0] != name),
        (*signed, ("sagabus-redrive", b"op")),
    ):
        assert check(record(ROW, headers=headers)) == "signature_invalid"


def test_nobody_signs_for_another() -> None:
    assert check(record(SIGNERS["shipping-1"].sign(ROW))) == "signature_invalid"
    stranger = Signer.of("payment-1", b"9" * 32)
    assert check(record(stranger.sign(ROW))) == "signature_invalid"
    unknown = Signer.of("payment-9", SEEDS["payment-1"])
    assert check(record(unknown.sign(ROW))) == "signature_invalid"


@pytest.mark.parametrize(
    "header",
    [
        *(b"", b"v1", b"v1;;", b"\xff"),
        *(b"v2;payment-1;" + b"A" * 86, b"v1;payment-1;" + b"A" * 86),
    ],
)
def test_a_malformed_header(header: bytes) -> None:
    found = record(ROW, headers=(*HEADERS, (SIGNATURE_HEADER, header)))
    assert check(found) == check(found, SignatureMode.ACCEPT) == "signature_invalid"
    assert check(found, SignatureMode.OFF) is None


def test_a_header_that_stands_twice() -> None:
    signed = SIGNERS["payment-1"].sign(ROW).headers
    assert check(record(ROW, headers=(*signed, signed[-1]))) == "signature_invalid"


def test_a_missing_signature_by_mode() -> None:
    assert check(record(ROW)) == "signature_missing"
    assert check(record(ROW), SignatureMode.ACCEPT) is None
    assert check(record(ROW), SignatureMode.OFF) is None


def test_keys_are_checked_when_they_are_read() -> None:
    for build in (
        lambda: Signer.of("payment-1", b"short"),
        lambda: Signer.of("Payment 1", b"1" * 32),
        lambda: VerifyKey("payment-1", "urn:sagabus:payment", b"short"),
        lambda: Verifier(SignatureMode.REQUIRE, [KEYS[0], KEYS[0]]),
    ):
        with pytest.raises(MessageError, match="invalid_signing_key"):
            build()


def test_the_private_key_shows_nowhere() -> None:
    assert repr(SIGNERS["payment-1"]) == "Signer(key_id='payment-1')"
