"""Odd headers and bodies: handled or dead-lettered at the door, never a reason to split a batch."""

import pytest

from sagabus_messages import OutboxRow, Record

from .support import Rig, commands, lifecycle

ODD = {
    "nothing": b"",
    "nul": b"\x00",
    "no text": b"\xff\xfe",
    "long": b"x" * 20_000,
    "spaces": b" \t ",
    "surrogate": b"\xed\xa0\x80",
    "injection": b"'; drop table saga; --",
    "bidi": "\u202egnp.exe".encode(),
}


def with_header(rig: Rig, record: Record, name: str, value: bytes) -> Record:
    headers = tuple((n, v) for n, v in record.headers if n != name)
    row = OutboxRow(record.topic, record.key, (*headers, (name, value)), record.value)
    return rig.record(row)


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
@pytest.mark.parametrize(
    "name", ["traceparent", "tracestate", "ce_source", "ce_id", "ce_time", "unheard-of"]
)
async def test_a_start_with_an_odd_header_is_answered_or_dead_lettered(
    rig: Rig, name: str, value: bytes
) -> None:
    odd = with_header(rig, rig.start_record("ODD"), name, value)
    sent = await rig.process(odd, rig.start_record("GOOD"))
    assert {event.business_key for event in lifecycle(sent)} >= {"GOOD"}
    started = await rig.count("saga where business_key = 'ODD'")
    assert started + len(await rig.dead_letters()) == 1


@pytest.mark.parametrize("value", ODD.values(), ids=ODD)
async def test_a_result_with_an_odd_trace_still_counts(rig: Rig, value: bytes) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    record = rig.result_record(command)
    odd = with_header(rig, with_header(rig, record, "traceparent", value), "tracestate", value)
    assert [c.step for c in commands(await rig.process(odd))] == ["charge"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{",
        b'{"saga_id":1}',
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b"\xef\xbb\xbf{}",
        b'{"attempt":1e400}',
        b'{"attempt":99999999999999999999}',
    ],
)
async def test_an_odd_body_is_dead_lettered_alone(rig: Rig, body: bytes) -> None:
    (command,) = commands(await rig.process(rig.start_record()))
    good = rig.result_record(command)
    odd = rig.record(OutboxRow(good.topic, good.key, good.headers, body))
    sent = await rig.process(odd, good)
    assert [c.step for c in commands(sent)] == ["charge"]
    assert len(await rig.dead_letters()) == 1


async def test_a_record_without_key_or_value_is_dead_lettered(rig: Rig) -> None:
    good = rig.start_record()
    odd = [
        rig.record(OutboxRow(good.topic, None, good.headers, good.value)),
        rig.record(OutboxRow(good.topic, good.key, good.headers, None)),
        rig.record(OutboxRow(good.topic, b"\xff", good.headers, good.value)),
        rig.record(OutboxRow("sagabus.result.nobody-knows.v1", good.key, good.headers, good.value)),
        rig.record(OutboxRow("sagabus.command.payment.v1", good.key, good.headers, good.value)),
        rig.record(OutboxRow("something-else", good.key, good.headers, good.value)),
    ]
    assert len(lifecycle(await rig.process(*odd, good))) == 1
    assert len(await rig.dead_letters()) == len(odd)
