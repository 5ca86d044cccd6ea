"""`sagabus dlt` on a database: redriven through every check, in order, once, with its audit."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from sagabus_bus import BatchWorker, ConsumerEvents, Reason, WorkerOptions, dead_letter_row
from sagabus_core import ids
from sagabus_messages import Command, OutboxRow, Record, decode, encode, unpack_headers
from sagabus_messages.codec import Stamp
from sagabus_orchestrator.events import OrchestratorEvents
from sagabus_orchestrator.letter_box import LetterBox
from sagabus_orchestrator.letters import Deed
from sagabus_orchestrator.redrive import DeadLetters
from sagabus_runtime import Health, new_registry
from sagabus_runtime.backoff import BackOffPolicy

from .support import TOPICS, WINDOW, Rig, Shell, commands, lifecycle

REFUSED, USAGE = 4, 2
WHY = ("--reason", "fixed")
UNKNOWN_STEP = Reason("unknown_step", "no such step here")
SOURCE = "urn:sagabus:orchestrator"


def box(rig: Rig) -> LetterBox:
    return LetterBox(rig.database, TOPICS, 30, OrchestratorEvents(CollectorRegistry()))


async def keep(rig: Rig, *letters: OutboxRow, offset: int = 900) -> None:
    """Put letters into the `.dlt` topics, as the relay would, each twice."""
    records = [
        Record(row.topic, 0, offset + n, row.key, row.value, row.headers, 0)
        for n, row in enumerate([*letters, *letters])
    ]
    await box(rig).process(records)


async def keep_written(rig: Rig) -> list[str]:
    """Keep the letters that the orchestrator wrote and return their ids."""
    async with rig.database.connection() as conn:
        rows = await conn.fetch("select * from outbox where topic like '%.dlt' order by id")
    found = [
        OutboxRow(r["topic"], r["key"], unpack_headers(r["headers"]), r["value"]) for r in rows
    ]
    await keep(rig, *found)
    return [dict(row.headers)["sagabus-dead-letter-id"].decode() for row in found]


def letter(record: Record, reason: Reason = UNKNOWN_STEP) -> OutboxRow:
    return dead_letter_row(record, reason, attempts=1, seen_at_ms=1_800_000_000_000)


def id_of(record: Record) -> str:
    return ids.dead_letter_id(record.topic, record.partition, record.offset)


async def sent(rig: Rig) -> list[OutboxRow]:
    """Return what stands in the outbox on command topics, in order."""
    async with rig.database.connection() as conn:
        rows = await conn.fetch(
            "select * from outbox where topic like '%command%' and topic not like '%.dlt'"
            " order by id"
        )
    return [OutboxRow(r["topic"], r["key"], unpack_headers(r["headers"]), r["value"]) for r in rows]


async def refused_command(rig: Rig, key: str = "ORD-1") -> Record:
    """Start a saga and return the record of its first command, which its participant refused."""
    await rig.process(rig.start_record(key))
    (row,) = await sent(rig)
    await rig.run("delete from outbox")
    record = rig.record(expiring(rig, row, 3_600_000))
    await keep(rig, letter(record))
    return record


def expiring(rig: Rig, row: OutboxRow, in_ms: int) -> OutboxRow:
    """Return a command that expires at another time: the steps of these tests are hasty."""
    body = decode(rig.record(row), TOPICS).body
    assert isinstance(body, Command)
    changed = body.model_copy(update={"expires_at_ms": rig.now_ms() + in_ms})
    return encode(changed, row.topic, Stamp(SOURCE, rig.now_ms()))


def problem(said: dict[str, Any]) -> str:
    return str(said["error"]["code"])


async def test_a_forged_result_stays_refused_when_it_is_redriven(rig: Rig, shell: Shell) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    effect = ids.effect_id(command.saga_id, 1, "reserve", command.phase, None)
    await rig.process(
        rig.result_record(command, attempt=7, command_id=ids.command_id(effect, 7)),
        rig.result_record(command, participant="payment"),
    )
    forged = await keep_written(rig)
    claims, written = await rig.count("inbox"), await rig.count("outbox")

    said = await shell("dlt", "redrive", *forged, *WHY, code=REFUSED)
    told = [entry["error"] for entry in said["dead_letters"]]
    assert sorted(text.split(":")[0] for text in told) == [
        "attempt_never_issued",
        "producer_mismatch",
    ]
    assert (await rig.count("inbox"), await rig.count("outbox")) == (claims, written)
    listed = await shell("dlt", "list")
    assert {entry["id"] for entry in listed["dead_letters"]} == set(forged)
    assert [c.step for c in commands(await rig.process(rig.result_record(command)))] == ["charge"]


async def test_a_result_that_met_a_bug_is_applied_once_after_the_fix(
    rig: Rig, shell: Shell
) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    result = rig.result_record(command)
    mended = await rig.break_snapshot("ORD-1")
    quick = WorkerOptions(outage=BackOffPolicy(1, 5), suspicion=BackOffPolicy(1, 5))
    worker = BatchWorker(rig.handler, ConsumerEvents("test"), quick)
    await worker.work([result], Health(new_registry()).pulse("test", deadline_ms=60_000))
    (letter_id,) = await keep_written(rig)
    await rig.restore_snapshot("ORD-1", mended)

    dry = await shell("dlt", "redrive", letter_id, *WHY, "--dry-run")
    assert dry["dead_letters"][0]["effect"].startswith("applied: ORD-1 is RUNNING")
    assert commands(await rig.read_outbox()) == []
    done = await shell("dlt", "redrive", letter_id, *WHY, "--operation-id", "op-1")
    again = await shell("dlt", "redrive", letter_id, *WHY, "--operation-id", "op-1")
    closed = await shell("dlt", "redrive", letter_id, *WHY, code=REFUSED)
    reused = await shell("dlt", "discard", letter_id, *WHY, "--operation-id", "op-1", code=REFUSED)

    assert [entry["repeated"] for entry in (done["dead_letters"][0], again["dead_letters"][0])] == [
        False,
        True,
    ]
    assert (problem(closed), problem(reused)) == ("dead_letter_closed", "operation_id_reused")
    assert [c.step for c in commands(await rig.read_outbox())] == ["charge"]
    assert await rig.process(result) == [], "the true record claims the same id"
    shown = await shell("dlt", "show", letter_id)
    assert (shown["state"], shown["code"]) == ("redriven", "unexpected_error")
    (deed,) = shown["history"]
    assert (deed["operation_id"], deed["reason"]) == ("op-1", "fixed")
    # Never produced again to a result topic: the orchestrator applied it itself.
    assert await rig.count("outbox where topic like '%result%' and topic not like '%.dlt'") == 0


async def test_a_command_goes_out_again_byte_by_byte(rig: Rig, shell: Shell) -> None:
    record = await refused_command(rig)
    await shell("dlt", "redrive", id_of(record), *WHY, "--dry-run")
    assert await sent(rig) == []
    place = f"{record.topic}/{record.partition}/{record.offset}"
    await shell("dlt", "redrive", place, *WHY)
    assert await sent(rig) == [OutboxRow(record.topic, record.key, record.headers, record.value)]


async def test_an_edited_command_has_a_new_ce_id_and_the_same_effect(
    rig: Rig, shell: Shell, tmp_path: Path
) -> None:
    record = await refused_command(rig)
    body, path = json.loads(record.value or b""), tmp_path / "edited.json"

    async def edit(code: int, **changes: object) -> dict[str, Any]:
        path.write_text(json.dumps({**body, **changes}))
        words = ("dlt", "redrive", id_of(record), *WHY, "--edit", str(path))
        return await shell(*words, "--operation-id", f"op {code}", code=code)

    later = {"expires_at": "2099-01-01T00:00:00.000Z"}
    assert problem(await edit(REFUSED, **later)) == "edit_changes_command"
    assert problem(await edit(REFUSED, attempt=2)) == "identity_mismatch"
    assert problem(await edit(REFUSED, payload=None)) == "edit_changes_command"
    await edit(0, payload={**body["payload"], "data": {"sku": "gadget"}})
    (row,) = await sent(rig)
    original, edited = decode(record, TOPICS), decode(rig.record(row), TOPICS)
    assert isinstance(original.body, Command)
    assert isinstance(edited.body, Command)
    assert edited.meta.ce_id == ids.redrive_id(original.body.command_id, "op 0")
    assert edited.meta.redrive == "op 0"
    assert edited.body.command_id == original.body.command_id
    assert edited.body.effect_id == original.body.effect_id
    assert edited.body.payload is not None
    assert json.loads(edited.body.payload.body) == {"sku": "gadget"}
    shown = await shell("dlt", "show", id_of(record))
    assert "gadget" in shown["history"][0]["edited"]
    assert "widget" in shown["body"], "the letter itself is evidence and stays as it was"


async def test_an_expired_command_is_refused(rig: Rig, shell: Shell) -> None:
    await rig.process(rig.start_record())
    record = rig.record(expiring(rig, (await sent(rig))[0], -5_000))
    await keep(rig, letter(record))
    said = await shell("dlt", "redrive", id_of(record), *WHY, code=REFUSED)
    assert problem(said) == "command_expired"


async def test_letters_of_one_key_are_redriven_in_their_order(rig: Rig, shell: Shell) -> None:
    first = await refused_command(rig)
    second = rig.record(OutboxRow(first.topic, first.key, first.headers, first.value))
    await keep(rig, letter(second), offset=950)
    other = await refused_command(rig, "ORD-2")

    said = await shell("dlt", "redrive", id_of(second), *WHY, code=REFUSED)
    assert problem(said) == "earlier_letter_open"
    dry = await shell("dlt", "redrive", "--where", "code=unknown_step", *WHY, "--dry-run")
    assert len(dry["dead_letters"]) == 3
    done = await shell("dlt", "redrive", "--where", f"saga={rig.saga('ORD-1')}", *WHY)
    assert [e["id"] for e in done["dead_letters"]] == [id_of(first), id_of(second)]
    await shell("dlt", "discard", id_of(other), *WHY)
    states = await shell("dlt", "list", "--state", "any")
    assert sorted(e["state"] for e in states["dead_letters"]) == ["discarded", *["redriven"] * 2]
    assert problem(await shell("dlt", "redrive", *WHY, code=USAGE)) == "usage"


async def test_a_start_may_be_edited_into_one_that_starts(
    rig: Rig, shell: Shell, tmp_path: Path
) -> None:
    good = rig.start_record("ORD-9")
    await rig.process(rig.record(OutboxRow(good.topic, good.key, good.headers, b'{"tenant":')))
    (letter_id,) = await keep_written(rig)
    path = tmp_path / "start.json"
    words = ("dlt", "redrive", letter_id, *WHY, "--edit", str(path), "--operation-id", "op-9")

    path.write_text('{"tenant": "acme"}')
    assert problem(await shell(*words, code=REFUSED)) == "missing_field"
    wrong = json.loads(good.value or b"")
    path.write_text(json.dumps({**wrong, "workflow": "no-such"}))
    assert problem(await shell(*words, code=REFUSED)) == "still_refused"
    path.write_text((good.value or b"").decode())
    said = await shell(*words)
    assert "RUNNING" in said["dead_letters"][0]["effect"]
    messages = await rig.read_outbox()
    assert [c.step for c in commands(messages)] == ["reserve"]
    assert lifecycle(messages)[-1].start_id == ids.redrive_id(letter_id, "op-9")


async def test_what_no_consumer_wrote_can_only_be_discarded(rig: Rig, shell: Shell) -> None:
    record = await refused_command(rig)
    true = letter(record)
    result_topic = TOPICS.dlt(TOPICS.result("payment"))
    forged_id = tuple(
        (name, b"x" if name == "sagabus-dead-letter-id" else v) for name, v in true.headers
    )
    odd = [
        OutboxRow(result_topic, true.key, true.headers, true.value),
        OutboxRow(true.topic, b"\xff\0", forged_id, b"\0"),
        OutboxRow(true.topic, None, (), None),
    ]
    await keep(rig, *odd)
    listed = await shell("dlt", "list", "--where", "kind=foreign")
    foreign = [entry["id"] for entry in listed["dead_letters"]]
    assert len(foreign) == 6, "each place of the .dlt topic by itself"
    said = await shell("dlt", "redrive", foreign[0], *WHY, code=REFUSED)
    assert problem(said) == "not_redrivable"
    await shell("dlt", "discard", *foreign, *WHY)
    left = await shell("dlt", "list")
    assert [entry["id"] for entry in left["dead_letters"]] == [id_of(record)]


async def test_a_letter_that_postgres_refuses_is_kept_all_the_same(rig: Rig) -> None:
    record = replace(rig.start_record(), partition=3_000_000_000)
    row = letter(record)
    stored = Record(row.topic, 0, 1, row.key, row.value, row.headers, 0)
    pulse = Health(new_registry()).pulse("test", deadline_ms=60_000)
    await BatchWorker(box(rig), ConsumerEvents("test")).work([stored], pulse)
    assert await rig.count("dead_letter where kind = 'foreign'") == 1


async def test_two_operators_at_once_have_one_effect(rig: Rig) -> None:
    record = await refused_command(rig)
    desk = DeadLetters(rig.database, TOPICS, rig.watcher, WINDOW)
    deeds = [Deed("redrive", f"op-{n}", "ada", "fixed", "redrive") for n in range(5)]
    outcomes = await asyncio.gather(
        *(desk.perform(id_of(record), deed) for deed in deeds), return_exceptions=True
    )
    codes = [getattr(outcome, "code", "done") for outcome in outcomes]
    assert sorted(codes) == ["dead_letter_closed"] * 4 + ["done"]
    assert len(await sent(rig)) == 1


@pytest.mark.parametrize("days", [0, 40])
async def test_letters_are_forgotten_when_they_are_too_old_to_be_redriven(
    rig: Rig, days: int
) -> None:
    await refused_command(rig)
    await rig.run("update dead_letter set received_at = now() - make_interval(days => $1)", days)
    await box(rig).forget()
    assert await rig.count("dead_letter") == (1 if days == 0 else 0)


async def test_an_early_answer_is_kept_when_it_is_redriven_in_recovery_mode(
    rig: Rig, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was turned away before the mode was on; its command is issued again later."""
    await rig.process(rig.start_record())
    await rig.process(rig.result_record(rig.foretold("ORD-1", "charge")))
    (letter_id,) = await keep_written(rig)
    refused = await shell("dlt", "redrive", letter_id, *WHY, code=REFUSED)
    assert "attempt_never_issued" in refused["error"]["detail"]
    monkeypatch.setenv("SAGABUS_RECOVERY_MODE", "sometimes")
    assert problem(await shell("dlt", "redrive", letter_id, *WHY, code=USAGE)) == "usage"

    monkeypatch.setenv("SAGABUS_RECOVERY_MODE", "replay")
    done = await shell("dlt", "redrive", letter_id, *WHY)
    assert done["dead_letters"][0]["effect"].startswith("kept: ")
    assert await rig.count("early_result") == 1
    (reserve,) = commands(rig.sent)
    sent = await rig.process(rig.result_record(reserve))
    assert [c.step for c in commands(sent)] == ["charge", "ship"], "it was applied at once"
    assert await rig.count("early_result") == 0


async def test_letters_are_found_by_the_tenant_that_their_saga_has(rig: Rig, shell: Shell) -> None:
    sent = await rig.process(
        rig.start_record("A", tenant="acme"), rig.start_record("B", tenant="bee")
    )
    for command in commands(sent):
        forged = rig.result_record(command, participant="payment", tenant="bee")
        await keep(rig, letter(forged), offset=forged.offset)
    unknown = rig.start_record("C", tenant="acme")
    await keep(rig, letter(unknown), offset=unknown.offset)
    for body in (b"{", b'{"tenant": "\\ud800"}', b'{"tenant": "a\\u0000b"}', b'{"tenant": 1}'):
        broken = rig.record(OutboxRow(unknown.topic, b"x", (), body))
        await keep(rig, letter(broken), offset=broken.offset)

    async def tenants(*where: str) -> list[str | None]:
        found = await shell("dlt", "list", *where)
        return sorted((each["tenant"] or "-") for each in found["dead_letters"])

    assert await tenants() == [*["-"] * 4, "acme", "acme", "bee"]
    assert await tenants("--where", "tenant=acme") == ["acme", "acme"]
    done = await shell("dlt", "discard", "--where", "tenant=acme", *WHY)
    assert len(done["dead_letters"]) == 2
    assert await tenants() == [*["-"] * 4, "bee"]
    said = await shell("dlt", "list", "--where", "owner=x", code=USAGE)
    assert "tenant=" in said["error"]["detail"]
