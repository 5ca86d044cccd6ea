"""Payload bytes survive the wire unchanged, whatever the order and spelling of the members."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sagabus_core.payload import Payload
from sagabus_messages import MessageError, Start, json_payload, json_value
from sagabus_messages.payloads import read_body, write_payload
from sagabus_messages.strict_json import dump

SAFE_TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | SAFE_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SAFE_TEXT, inner, max_size=3),
    max_leaves=8,
)


def start(payload: Payload | None) -> Start:
    return Start(tenant="t", workflow="w", business_key="k", payload=payload)


def crossed(payload: Payload) -> Payload | None:
    body, text = read_body(dump(start(payload).to_wire()), "payload")
    return Start.from_wire(body, text).payload


@settings(deadline=None)
@given(VALUES, st.sampled_from([None, 0, 2]), st.booleans())
def test_json_text_survives(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only).encode()
    payload = Payload("application/json", "urn:x:v1", text)
    assert crossed(payload) == payload
    assert json_value(payload) == value


@settings(deadline=None)
@given(st.binary())
def test_raw_bytes_survive(data: bytes) -> None:
    payload = Payload("application/octet-stream", "urn:x:v1", data)
    assert crossed(payload) == payload


@settings(deadline=None)
@given(st.permutations(["content_type", "schema_id", "data", "extra"]), VALUES, st.booleans())
def test_any_order_of_members(order: list[str], value: Any, payload_last: bool) -> None:
    text = json.dumps(value, indent=1)
    parts = {
        "content_type": '"application/json"',
        "schema_id": '"urn:x:v1"',
        "data": text,
        "extra": '{"data": 1}',
    }
    inner = "{" + ",".join(f'"{name}" : {parts[name]}' for name in order) + "}"
    rest = '"tenant":"t","workflow":"w","business_key":"k","data":{"data":2}'
    members = [rest, f'"payload":{inner}']
    raw = "{" + ",".join(members if payload_last else reversed(members)) + "}"
    body, found = read_body(raw.encode(), "payload")
    assert Start.from_wire(body, found).payload == Payload(
        "application/json", "urn:x:v1", text.encode()
    )


@pytest.mark.parametrize("text", ["12.50", "1E2", "-0", " 1 ", '"\\u00e9"', '{ "b":1,"a":2 }'])
def test_spelling_is_kept(text: str) -> None:
    raw = (
        '{"tenant":"t","workflow":"w","business_key":"k","payload":'
        '{"content_type":"application/json","schema_id":"s","data":' + text + "}}"
    )
    body, found = read_body(raw.encode(), "payload")
    payload = Start.from_wire(body, found).payload
    assert payload is not None
    assert payload.body == text.strip().encode()


@pytest.mark.parametrize(
    "raw",
    [
        b'{"payload":{"schema_id":"s","data":1,"data":2}}',
        b'{"payload":{"data":3,"schema_id":"s","data":1}}',
        b'{"payload":{"data":{}},"payload":{"data":1}}',
        b'{"payload":{"schema_id":"s","data":1,"schema_id":{}}}',
        b'{"payload":{"schema_id":"s","data":{"a":1,"a":{}}}}',
        b'{"tenant":1,"tenant":2,"payload":{"data":{}}}',
    ],
)
def test_the_cut_hides_no_duplicate(raw: bytes) -> None:
    with pytest.raises(MessageError) as refusal:
        read_body(raw, "payload")
    assert refusal.value.code == "duplicate_key"


def test_data_elsewhere_is_not_taken_for_the_payload() -> None:
    body, text = read_body(b'{"a":{"data":{"b":{"data":1}}}}', "payload")
    assert text is None
    assert body == {"a": {"data": {"b": {"data": 1}}}}


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        (Payload("application/json", "s", b'{"a":1,"a":2}'), "duplicate_key"),
        (Payload("application/json", "s", b"}, {"), "invalid_json"),
        (Payload("application/json", "s", b""), "invalid_json"),
        (Payload("Application/JSON", "s", b"1"), "invalid_field"),
        (Payload("application/json", "", b"1"), "invalid_field"),
    ],
)
def test_what_no_reader_would_take_is_not_written(payload: Payload, code: str) -> None:
    with pytest.raises(MessageError) as refusal:
        write_payload(payload)
    assert refusal.value.code == code


def test_values_of_other_media_types_are_not_json() -> None:
    with pytest.raises(MessageError):
        json_value(Payload("application/avro", "s", b"1"))
    assert json_value(json_payload({"a": [1]}, "s")) == {"a": [1]}
