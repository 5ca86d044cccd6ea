"""Signed results at the door, by mode and key, again at a redrive; signed commands behind it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import Reason, dead_letter_row
from sagabus_core import ids
from sagabus_messages import (
    OutboxRow,
    Record,
    SignatureMode,
    Signer,
    Verifier,
    unpack_headers,
)
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.letter_box import LetterBox
from sagabus_orchestrator.letters import Deed
from sagabus_orchestrator.operations import Operations
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_orchestrator.signatures import Signatures

from .support import TOPICS, WINDOW, Rig, commands, pause, resume

NAMES = ("inventory", "payment")
SIGNERS = {name: Signer.of(f"{name}-1", name.encode().ljust(32)) for name in NAMES}
KEYS = [signer.verify_key(f"urn:sagabus:{name}") for name, signer in SIGNERS.items()]
STRICT = Signatures(Verifier(SignatureMode.REQUIRE, KEYS))
OURS, OUR_LAST = (Signer.of(f"orchestrator-{n}", bytes([n]) * 32) for n in (2, 1))
OUR_SOURCE = "urn:sagabus:orchestrator"
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
    rig.handler.signatures = STRICT
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
    rig.handler.signatures = Signatures(Verifier(SignatureMode.ACCEPT, KEYS))
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
    strict_desk = DeadLetters(*args, signatures=STRICT)
    with pytest.raises(Refused, match=r"still_refused: signature_missing"):
        await strict_desk.perform(letter, deed)
    assert (await DeadLetters(*args).perform(letter, deed)).effect.startswith("applied")


async def command_records(rig: Rig) -> list[Record]:
    """Return every command of the outbox, as a participant would read it."""
    async with rig.database.connection() as conn:
        rows = await conn.fetch(
            "select * from outbox where topic like 'sagabus.command.%.v1' order by id"
        )
    return [
        Record(row["topic"], 0, 0, row["key"], row["value"], unpack_headers(row["headers"]), 0)
        for row in rows
    ]


async def test_commands_are_signed_wherever_they_are_decided(rig: Rig) -> None:
    """In a batch, in an operation, when a redriven result is applied."""
    rig.handler.signatures = Signatures(signer=OURS)
    operations = Operations(rig.database, TOPICS, rig.watcher, signer=OURS)
    (reserve,) = commands(await rig.process(rig.start_record()))
    await operations.perform("acme", rig.saga("ORD-1"), pause("p"))
    await rig.process(rig.result_record(reserve))
    await operations.perform("acme", rig.saga("ORD-1"), resume("r"))
    charge = commands(await rig.read_outbox())[-1]
    letter = await kept(rig, rig.result_record(charge))
    desk = DeadLetters(
        rig.database, TOPICS, rig.watcher, WINDOW, signatures=Signatures(signer=OURS)
    )
    await desk.perform(letter, Deed("redrive", "op-1", "ada", "fixed", "redrive"))

    sent = await command_records(rig)
    check = Verifier(SignatureMode.REQUIRE, [OURS.verify_key(OUR_SOURCE)])
    assert [record.topic.split(".")[2] for record in sent] == ["inventory", "payment", "shipping"]
    for record in sent:
        check.check(record)


async def test_a_forged_command_does_not_become_genuine_by_being_edited(rig: Rig) -> None:
    known = Verifier(SignatureMode.REQUIRE, [*KEYS, OUR_LAST.verify_key(OUR_SOURCE)])
    after_rotation = Signatures(known, OURS)
    await rig.process(rig.start_record())
    (unsigned,) = await command_records(rig)
    desk = DeadLetters(rig.database, TOPICS, rig.watcher, WINDOW, signatures=after_rotation)
    row = OutboxRow(unsigned.topic, unsigned.key, unsigned.headers, unsigned.value)
    stolen_name = Signer.of(OURS.key_id, b"9" * 32)

    async def redrive(name: str, signer: Signer | None) -> str:
        letter = await kept(rig, rig.record(row if signer is None else signer.sign(row)))
        deed = Deed("redrive", name, "ada", "fixed", "redrive", unsigned.value)
        try:
            return (await desk.perform(letter, deed)).effect
        except Refused as error:
            await desk.perform(letter, replace(deed, kind="discard", operation_id=f"not-{name}"))
            return error.code

    for n, signer in enumerate((None, stolen_name, SIGNERS["inventory"], stranger())):
        assert await redrive(f"forged-{n}", signer) == "edit_not_allowed"
    for n, signer in enumerate((OURS, OUR_LAST)):
        assert (await redrive(f"ours-{n}", signer)).startswith("sent to")
    for record in (await command_records(rig))[1:]:
        Verifier(SignatureMode.REQUIRE, [OURS.verify_key(OUR_SOURCE)]).check(record)


def stranger() -> Signer:
    return Signer.of("nobody-1", b"9" * 32)
