"""Signed results at the door: by mode, by key, and again at a redrive."""

from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import Reason, dead_letter_row
from sagabus_core import ids
from sagabus_messages import OutboxRow, Record, SignatureMode, Signer, Verifier, VerifyKey
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.letter_box import LetterBox
from sagabus_orchestrator.letters import Deed
from sagabus_orchestrator.redrive import DeadLetters

from .support import TOPICS, WINDOW, Rig, commands

NAMES = ("inventory", "payment")
SIGNERS = {name: Signer.of(f"{name}-1", name.encode().ljust(32)) for name in NAMES}
KEYS = [
    VerifyKey(
        signer.key_id,
        f"urn:sagabus:{name}",
        signer._private.public_key().public_bytes_raw(),
    )
    for name, signer in SIGNERS.items()
]
Tamper = Callable[[Rig, Record], Record]


def signed(rig: Rig, record: Record, by: str = "inventory") -> Record:
    row = OutboxRow(record.topic, record.key, record.headers, record.value)
    return rig.record(SIGNERS[by].sign(row))


def tampered(rig: Rig, record: Record) -> Record:
    good = signed(rig, record)
    assert good.value is not None
    other = good.value.replace(b"SUCCEEDED", b"HALTED")
    return rig.record(OutboxRow(good.topic, good.key, good.headers, other))


async def kept(rig: Rig, record: Record) -> str:
    """Keep the dead letter of a record and return its id."""
    row = dead_letter_row(record, Reason("signature_missing", "-"), attempts=1, seen_at_ms=1)
    box = LetterBox(rig.database, TOPICS, 30, OrchestratorEvents(CollectorRegistry()))
    await box.process([Record(row.topic, 0, 1, row.key, row.value, row.headers, 0)])
    return ids.dead_letter_id(record.topic, record.partition, record.offset)


FORGERIES: dict[str, tuple[Tamper, str]] = {
    "no signature": (lambda _, record: record, "signature_missing"),
    "another participant's key": (
        lambda rig, record: signed(rig, record, "payment"),
        "signature_invalid",
    ),
    "another body": (tampered, "signature_invalid"),
}


@pytest.fixture
def strict(rig: Rig) -> Rig:
    rig.handler.verifier = Verifier(SignatureMode.REQUIRE, KEYS)
    return rig


@pytest.mark.parametrize(("forge", "reason"), FORGERIES.values(), ids=FORGERIES)
async def test_what_is_not_signed_well_claims_nothing(
    strict: Rig, forge: Tamper, reason: str
) -> None:
    (command,) = commands(await strict.process(strict.start_record()))
    claims = await strict.count("inbox")
    record = strict.result_record(command)
    assert await strict.process(forge(strict, record)) == []
    assert await strict.dead_letters() == [reason]
    assert await strict.count("inbox") == claims

    sent = await strict.process(signed(strict, record))
    assert [c.step for c in commands(sent)] == ["charge"]


async def test_starts_and_wakeups_need_no_signature(strict: Rig) -> None:
    assert commands(await strict.process(strict.start_record()))
    assert await strict.dead_letters() == []


async def test_unsigned_results_count_while_signatures_are_introduced(rig: Rig) -> None:
    rig.handler.verifier = Verifier(SignatureMode.ACCEPT, KEYS)
    (reserve,) = commands(await rig.process(rig.start_record()))
    forged = signed(rig, rig.result_record(reserve), "payment")
    assert await rig.process(forged) == []
    sent = await rig.process(rig.result_record(reserve))
    assert [c.step for c in commands(sent)] == ["charge"]
    assert await rig.dead_letters() == ["signature_invalid"]


async def test_a_redrive_checks_the_signature_again(strict: Rig) -> None:
    (command,) = commands(await strict.process(strict.start_record()))
    record = strict.result_record(command)
    await strict.process(record)
    letter = await kept(strict, record)
    deed = Deed("redrive", "op-1", "ada", "fixed", "redrive")
    args = (strict.database, TOPICS, strict.watcher, WINDOW)
    strict_desk = DeadLetters(*args, verifier=strict.handler.verifier)
    with pytest.raises(Refused, match=r"still_refused: signature_missing"):
        await strict_desk.perform(letter, deed)
    assert (await DeadLetters(*args).perform(letter, deed)).effect.startswith("applied")
