"""Hand-written examples: model, JSON Schema and codec agree on each."""

import json

import pytest

from sagabus_messages import (
    Command,
    Kind,
    MessageError,
    Record,
    Result,
    Stamp,
    Start,
    Topics,
    decode,
    encode,
    verify_identity,
)
from sagabus_messages.codec import _MODELS
from sagabus_messages.payloads import read_body

from .examples import Example, check_against_schema, examples

TOPICS = Topics()
VALID, INVALID = examples("valid"), examples("invalid")
REQUIRED_KINDS = {str(kind) for kind in Kind}


def names(example: Example) -> str:
    return example.name


def test_every_message_has_both_kinds_of_examples() -> None:
    assert {example.kind for example in VALID} == REQUIRED_KINDS
    assert {example.kind for example in INVALID} == REQUIRED_KINDS


@pytest.mark.parametrize("example", VALID, ids=names)
def test_valid_is_accepted_by_model_schema_and_codec(example: Example) -> None:
    envelope = decode(example.record, TOPICS)
    if isinstance(envelope.body, Command | Result):
        verify_identity(envelope.body)
    value = example.value or b""
    assert check_against_schema(example.kind, value)
    model = _MODELS[Kind(example.kind)]
    body, text = read_body(value, model.payload_member)
    assert model.from_wire(body, text) == envelope.body


@pytest.mark.parametrize("example", VALID, ids=names)
def test_valid_round_trips(example: Example) -> None:
    record = example.record
    first = decode(record, TOPICS)
    stamp = Stamp(first.meta.source, first.meta.ce_time_ms)
    row = encode(
        first.body,
        first.meta.topic.source,
        stamp,
        ce_id=first.meta.ce_id if isinstance(first.body, Start) else None,
        redrive=first.meta.redrive,
        start_source=first.meta.start_source,
    )
    again = decode(Record(row.topic, 0, 0, row.key, row.value, row.headers, 0), TOPICS)
    assert again.body == first.body
    assert again.meta._replace(topic=first.meta.topic) == first.meta
    assert check_against_schema(example.kind, row.value)
    assert {k: v for k, v in row.headers if k.startswith("ce_")}.items() <= dict(
        record.headers
    ).items()


@pytest.mark.parametrize("example", [e for e in INVALID if e.refused_by("codec")], ids=names)
def test_invalid_is_refused_by_the_codec(example: Example) -> None:
    with pytest.raises(MessageError) as refusal:
        decode(example.record, TOPICS)
    assert refusal.value.code == example.expect, refusal.value.detail
    assert len(refusal.value.detail) < 400


@pytest.mark.parametrize("example", [e for e in INVALID if e.refused_by("model")], ids=names)
def test_invalid_is_refused_by_the_model(example: Example) -> None:
    with pytest.raises(MessageError) as refusal:
        _MODELS[Kind(example.kind)].from_wire(json.loads(example.value or b""))
    assert refusal.value.code == example.expect


@pytest.mark.parametrize("example", [e for e in INVALID if e.refused_by("schema")], ids=names)
def test_invalid_is_refused_by_the_schema(example: Example) -> None:
    assert not check_against_schema(example.kind, example.value)


@pytest.mark.parametrize("example", [e for e in INVALID if e.refused_by("identity")], ids=names)
def test_forged_ids_are_refused_although_the_record_agrees(example: Example) -> None:
    body = decode(example.record, TOPICS).body
    assert isinstance(body, Command | Result)
    with pytest.raises(MessageError) as refusal:
        verify_identity(body)
    assert refusal.value.code == example.expect


@pytest.mark.parametrize("example", INVALID, ids=names)
def test_a_marked_exception_is_a_real_one(example: Example) -> None:
    """What only the codec refuses, the schema really accepts or cannot see: no lazy marking."""
    assert example.document["refused_by"]
    if example.refused_by("schema") or not example.refused_by("model"):
        return
    assert check_against_schema(example.kind, example.value)
