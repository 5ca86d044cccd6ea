"""Strict JSON against an independent reader written for this test alone."""

import json
import math
import re
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sagabus_messages import MessageError, parse_strict
from sagabus_messages.strict_json import MAX_DEPTH, dump, member_text


class Refused(Exception):
    pass


class PlainReader:
    """RFC 8259 by hand, a character at a time, with the strict rules; slow and obvious."""

    number = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
    short = dict(zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True))  # noqa: RUF012  # a constant

    def __init__(self, raw: bytes) -> None:
        try:
            self.text = raw.decode()
        except UnicodeDecodeError as cause:
            raise Refused from cause
        self.at = 0

    def read(self) -> Any:
        value = self.value(0)
        self.space()
        self.need(self.at == len(self.text))
        return value

    def need(self, condition: object) -> None:
        if not condition:
            raise Refused

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, token: str) -> None:
        self.need(self.text.startswith(token, self.at))
        self.at += len(token)

    def space(self) -> None:
        while self.peek() and self.peek() in " \t\n\r":
            self.at += 1

    def value(self, depth: int) -> Any:
        self.need(depth <= MAX_DEPTH)
        self.space()
        for token, value in (("true", True), ("false", False), ("null", None)):
            if self.text.startswith(token, self.at):
                self.at += len(token)
                return value
        match self.peek():
            case "{":
                return self.object(depth + 1)
            case "[":
                return self.array(depth + 1)
            case '"':
                return self.string()
            case _:
                return self.digits()

    def object(self, depth: int) -> dict[str, Any]:
        self.need(depth <= MAX_DEPTH)
        self.take("{")
        members: dict[str, Any] = {}
        self.space()
        while self.peek() != "}":
            if members:
                self.take(",")
                self.space()
            key = self.string()
            self.need(key not in members)
            self.space()
            self.take(":")
            members[key] = self.value(depth)
            self.space()
        self.take("}")
        return members

    def array(self, depth: int) -> list[Any]:
        self.need(depth <= MAX_DEPTH)
        self.take("[")
        items: list[Any] = []
        self.space()
        while self.peek() != "]":
            if items:
                self.take(",")
            items.append(self.value(depth))
            self.space()
        self.take("]")
        return items

    def string(self) -> str:
        self.take('"')
        units: list[str] = []
        while self.peek() != '"':
            char = self.peek()
            self.need(char and ord(char) >= 0x20)
            self.at += 1
            units.append(self.escape() if char == "\\" else char)
        self.take('"')
        text = "".join(units)
        try:
            whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError as cause:
            raise Refused from cause
        self.need("\x00" not in whole)
        return whole

    def escape(self) -> str:
        char = self.peek()
        self.at += 1
        if char == "u":
            digits = self.text[self.at : self.at + 4]
            self.need(re.fullmatch("[0-9a-fA-F]{4}", digits))
            self.at += 4
            return chr(int(digits, 16))
        self.need(char in self.short and char)
        return self.short[char]

    def digits(self) -> int | float:
        match = self.number.match(self.text, self.at)
        self.need(match and match[0])
        token = match[0] if match else ""
        self.at += len(token)
        if re.fullmatch("-?[0-9]+", token):
            self.need(len(token) < 18 and abs(int(token)) < 2**53)
            return int(token)
        self.need(math.isfinite(float(token)))
        return float(token)


def plainly(raw: bytes) -> Any:
    try:
        return PlainReader(raw).read()
    except Refused:
        return Refused


def strictly(raw: bytes) -> Any:
    try:
        return parse_strict(raw)
    except MessageError:
        return Refused


TOKENS = [
    "{", "}", "[", "]", ":", ",", '"a"', '"b"', '"a":', '{"a":1', "1", "-0", "1.5", "12.50", "1e5",
    "1e400", "9007199254740991", "9007199254740992", "-9007199254740992", "18446744073709551616",
    "1" * 400, "true", "null", "NaN", "Infinity", " ", "\n", "\ufeff", "01", "1.", ".5", "-",
    '"\\u0000"', '"\\\\u0000"', '"\\\\\\u0000"', '"\\ud83d"', '"\\ud83d\\ude00"', '"\\u0061"',
    "\x00", '"é"', '"\\u00e9"', '"x\\"y"', '"\x01"',
]  # fmt: skip
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.integers()
    | st.floats()
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)
SETTINGS = settings(max_examples=200, deadline=None)


@SETTINGS
@given(st.lists(st.sampled_from(TOKENS), max_size=12).map("".join))
@example('{"a":1,"a":1}')
@example('{"a":1,"\\u0061":1}')
@example('{"a" :1, "a":1}')
@example("[" * 65 + "]" * 65)
@example("[" * 64 + "]" * 64)
def test_token_soup_is_read_as_the_plain_reader_reads_it(text: str) -> None:
    raw = text.encode()
    assert repr(strictly(raw)) == repr(plainly(raw)) or strictly(raw) == plainly(raw)


@SETTINGS
@given(JSON, st.booleans(), st.sampled_from([None, 1]))
def test_any_value_in_any_spelling(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    raw = text.encode("utf-8", "surrogatepass")
    assert strictly(raw) == plainly(raw)


@SETTINGS
@given(JSON, st.data())
def test_bytes_changed_at_random(value: Any, data: st.DataObject) -> None:
    raw = bytearray(json.dumps(value).encode())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] = data.draw(st.integers(0, 255))
    assert repr(strictly(bytes(raw))) == repr(plainly(bytes(raw))) or (
        strictly(bytes(raw)) == plainly(bytes(raw))
    )


@SETTINGS
@given(
    st.dictionaries(st.text('abo"\\{}: é', max_size=3), st.sampled_from([1, "}", [], {"data": 2}])),
    st.sampled_from([None, 0, 2]),
)
def test_member_text_finds_the_exact_text(others: dict[str, Any], indent: int | None) -> None:
    wanted = {"data": [others, "\u00e9}"], "o": 12.5}
    document = {**others, "o": {**others, "data": wanted, "z": 1}, "last": others}
    raw = json.dumps(document, indent=indent).encode()
    text = member_text(raw, "o", "data")
    assert text is not None
    assert text in raw
    assert text == text.strip()
    assert json.loads(text) == wanted
    assert member_text(raw, "o", "absent") is None
    assert member_text(raw, "absent", "data") is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"a":1,"a":2}', "duplicate_key"),
        ('"\\u0000"', "nul_character"),
        ('["\\udc00"]', "lone_surrogate"),
        ("9007199254740992", "unsafe_integer"),
        ("1" * 5000, "unsafe_integer"),
        ("-1e400", "non_finite_number"),
        ("[Infinity]", "non_finite_number"),
        ("[" * 100_000, "json_too_deep"),
        ('{"a":' * 65 + "1" + "}" * 65, "json_too_deep"),
        ("[1,]", "invalid_json"),
        ("", "invalid_json"),
        ('"\t"', "invalid_json"),
    ],
)
def test_each_refusal_has_its_code(text: str, code: str) -> None:
    with pytest.raises(MessageError) as refusal:
        parse_strict(text.encode())
    assert refusal.value.code == code


def test_brackets_inside_texts_are_no_depth() -> None:
    assert parse_strict(dump(["[{" * 100, '\\"[' * 70])) == ["[{" * 100, '\\"[' * 70]
    assert parse_strict(dump([[1]] * 500)) == [[1]] * 500


@pytest.mark.parametrize("value", [2**53, float("nan") and {1: 2}, {"a": {1}}, "\ud800"])
def test_dump_refuses_what_no_reader_would_take(value: object) -> None:
    with pytest.raises(MessageError) as refusal:
        dump(value)
    assert refusal.value.code == "not_json"


def test_orjson_alone_would_not_do() -> None:
    """The premise of the second look; where it stops holding, the fast path may be all."""
    assert orjson.loads('{"a":1,"a":2}') == {"a": 2}
    assert isinstance(orjson.loads(str(2**64)), float)
    assert orjson.loads('"\\u0000"') == "\x00"
