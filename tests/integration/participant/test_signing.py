"""A participant signs its results where it decides, and believes the commands that are signed."""

from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from pydantic import BaseModel

from sagabus_bus.signatures import signer_of
from sagabus_core.vocabulary import Phase, ResultStatus
from sagabus_messages import (
    MessageError,
    OutboxRow,
    Record,
    SignatureMode,
    Signer,
    Verifier,
    VerifyKey,
    unpack_headers,
)
from sagabus_participant import (
    ExecutedLocally,
    LocalContext,
    LocalStep,
    Participant,
    StepOptions,
    Succeeded,
    Undone,
)
from sagabus_participant.assembly import WorkSettings
from sagabus_runtime import SettingsError

Rig: TypeAlias = Any  # the class of conftest.py, which importlib mode cannot import


class Order(BaseModel):
    order: str


class Nothing(LocalStep[Order]):
    async def execute(self, ctx: LocalContext, order: Order) -> ExecutedLocally:
        return Succeeded()

    async def compensate(self, ctx: LocalContext) -> Undone:
        return Succeeded()


def pem(key: ed25519.Ed25519PrivateKey | ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


async def test_results_are_signed(rig_of: Rig, tmp_path: Path) -> None:
    private, file = ed25519.Ed25519PrivateKey.generate(), tmp_path / "key.pem"
    file.write_bytes(pem(private))
    participant = Participant("inventory")
    participant.add("reserve", Order, Nothing(), StepOptions())
    rig = await rig_of(participant, "reserve")
    settings = WorkSettings(kafka="a:1", signing_key_file=file, signing_key_id="inventory-1")
    rig.shell = replace(rig.shell, signer=signer_of(settings))
    await rig.ask(Phase.EXECUTE)
    await rig.ask(Phase.COMPENSATE)

    key = VerifyKey("inventory-1", "urn:sagabus:inventory", private.public_key().public_bytes_raw())
    async with rig.db.connection() as conn:
        rows = await conn.fetch("select topic, key, headers, value from outbox order by id")
    assert len(rows) == 2
    for row in rows:
        headers = unpack_headers(row["headers"])
        record = Record(row["topic"], 0, 0, row["key"], row["value"], headers, 0)
        Verifier(SignatureMode.REQUIRE, [key]).check(record)


@pytest.mark.parametrize("text", [b"", b"nonsense", pem(ec.generate_private_key(ec.SECP256R1()))])
def test_a_key_that_does_not_load_is_told_before_any_connection(
    tmp_path: Path, text: bytes
) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(text)
    settings = WorkSettings(kafka="a:1", signing_key_file=file, signing_key_id="inventory-1")
    with pytest.raises(SettingsError, match="SAGABUS_SIGNING_KEY_FILE"):
        signer_of(settings)
    with pytest.raises(SettingsError, match="set both"):
        signer_of(WorkSettings(kafka="a:1", signing_key_file=file))


OURS, PAYMENTS = Signer.of("orchestrator-1", b"1" * 32), Signer.of("payment-1", b"2" * 32)
KEYS = [OURS.verify_key("urn:sagabus:orchestrator"), PAYMENTS.verify_key("urn:sagabus:payment")]


def from_payment(record: Record) -> Record:
    headers = tuple(
        (name, b"urn:sagabus:payment" if name == "ce_source" else value)
        for name, value in record.headers
    )
    return replace(record, headers=headers)


def signed(record: Record, signer: Signer) -> Record:
    row = signer.sign(OutboxRow(record.topic, record.key, record.headers, record.value))
    return replace(record, headers=row.headers)


async def test_commands_count_when_the_orchestrator_signed_them(rig_of: Rig) -> None:
    participant = Participant("inventory")
    participant.add("reserve", Order, Nothing(), StepOptions())
    rig = await rig_of(participant, "reserve")
    off = rig.shell
    rig.shell = replace(off, commands=Verifier(SignatureMode.REQUIRE, KEYS))
    command = rig.command(Phase.EXECUTE)
    for forged, code in (
        (command, "signature_missing"),
        (signed(command, PAYMENTS), "signature_invalid"),
        (signed(from_payment(command), PAYMENTS), "producer_mismatch"),
        (replace(signed(command, OURS), value=command.value + b" "), "signature_invalid"),
        (signed(command, Signer.of("orchestrator-2", b"1" * 32)), "signature_invalid"),
    ):
        with pytest.raises(MessageError) as refused:
            await rig.send(forged)
        assert refused.value.code == code
    async with rig.db.connection() as conn:
        assert await conn.fetchval("select count(*) from inbox") == 0
    (answer,) = await rig.send(signed(command, OURS))
    assert answer.status is ResultStatus.SUCCEEDED

    rig.shell = replace(off, commands=Verifier(SignatureMode.ACCEPT, KEYS))
    (undone,) = await rig.ask(Phase.COMPENSATE)
    assert undone.status is ResultStatus.SUCCEEDED, "unsigned ones count while it is introduced"
