"""JSON as every language reads it alike, or not at all (I-JSON, RFC 7493).

orjson reads fast but accepts duplicate keys and NUL and turns 2^64 into a float. The proof used
here: where writing the parsed tree again gives the very same bytes, no key was lost, and no number
changed its kind, so only NUL and the depth remain to be looked at. Whatever fails that cheap test
(white space, escapes, `12.50`) is read again by the standard library with a hook on every object
and number. A property test holds the result equal to an independent reader.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

import orjson

from sagabus_core.canonical import MAX_SAFE_INTEGER, JsonValue
from sagabus_messages.errors import MessageError

__all__ = ["MAX_DEPTH", "RawJson", "dump", "load", "member_text", "parse_strict"]

MAX_DEPTH: Final = 64
"""Deepest nesting of objects and arrays, the default of the strictest common parser."""

RawJson = orjson.Fragment
"""JSON text that `dump` writes unchanged; the caller vouches that it is JSON."""

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_SPACE = re.compile(r"[ \t\n\r]*")
_LARGE = "send large numbers as text"


def dump(value: object) -> bytes:
    """Return compact JSON, members in the order given. Raises `not_json` for anything else."""
    try:
        return orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except TypeError as cause:
        raise MessageError(
            "not_json", f"the value cannot be written as JSON ({cause}); {_LARGE}"
        ) from cause


def load(raw: bytes) -> Any:  # noqa: ANN401  # the caller knows the shape that it stored
    """Return the value of JSON that this system wrote itself; unlike a door, it checks nothing."""
    return orjson.loads(raw)


def parse_strict(raw: bytes, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Return the one value that every reader sees in `raw`.

    Raises `MessageError`: `invalid_json`, `duplicate_key`, `nul_character`, `lone_surrogate`,
    `unsafe_integer`, `non_finite_number` or `json_too_deep`.
    """
    if raw.count(b"{") + raw.count(b"[") > max_depth:
        _check_depth(raw, max_depth)
    try:
        tree: JsonValue = orjson.loads(raw)
        written = orjson.dumps(tree, option=orjson.OPT_STRICT_INTEGER)
    except (orjson.JSONDecodeError, TypeError):
        return _parse_carefully(raw)
    if written == raw and b"\\u0000" not in raw:
        return tree
    return _parse_carefully(raw)


def member_text(raw: bytes, outer: str, inner: str) -> bytes | None:
    """Return the exact text of `outer.inner` in strict JSON, None where there is no such member."""
    text = raw.decode()
    span = _member_span(text, _SPACE.match(text, 0), outer)
    if span is None or text[span[0]] != "{":
        return None
    span = _member_span(text, _SPACE.match(text, span[0]), inner)
    return None if span is None else text[span[0] : span[1]].encode()


def _member_span(text: str, start: re.Match[str] | None, name: str) -> tuple[int, int] | None:
    position = _after_space(text, start.end() + 1 if start else 1)
    while text[position] != "}":
        key, position = _PLAIN.raw_decode(text, position)
        begin = _after_space(text, _after_space(text, position) + 1)
        _, end = _PLAIN.raw_decode(text, begin)
        if key == name:
            return begin, end
        position = _after_space(text, end)
        if text[position] == ",":
            position = _after_space(text, position + 1)
    return None


def _after_space(text: str, position: int) -> int:
    match = _SPACE.match(text, position)
    return match.end() if match else position


def _check_depth(raw: bytes, max_depth: int) -> None:
    depth = 0
    for match in _BRACKET.finditer(_STRING.sub(b"", raw)):
        depth += 1 if match[0] in b"[{" else -1
        if depth > max_depth:
            raise MessageError(
                "json_too_deep", f"objects and arrays may nest {max_depth} deep: flatten the data"
            )


def _parse_carefully(raw: bytes) -> JsonValue:
    if _NUL.search(raw):
        raise MessageError("nul_character", "a text holds U+0000, which no database text can keep")
    try:
        tree: JsonValue = _CAREFUL.decode(raw.decode())
        if b"\\u" in raw:  # only an escape can smuggle half a pair past the decoder
            json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError as cause:
        raise MessageError(
            "lone_surrogate", "a text holds half of a surrogate pair: send whole characters"
        ) from cause
    except (ValueError, RecursionError) as cause:
        raise MessageError("invalid_json", f"the body is not UTF-8 JSON text: {cause}") from cause
    return tree


def _unique(pairs: list[tuple[str, JsonValue]]) -> JsonValue:
    members = dict(pairs)
    if len(members) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise MessageError("duplicate_key", f"the member {twice[:63]!a} stands twice: keep one")
    return members


def _safe_integer(token: str) -> int:
    if len(token) > 17 or abs(int(token)) > MAX_SAFE_INTEGER:
        raise MessageError("unsafe_integer", f"{token[:24]} is beyond +-(2^53-1): {_LARGE}")
    return int(token)


def _finite(token: str) -> float:
    value = float(token)
    if math.isinf(value):
        raise MessageError("non_finite_number", f"{token[:24]} overflows a double: {_LARGE}")
    return value


def _refuse_constant(token: str) -> NoReturn:
    raise MessageError("non_finite_number", f"{token} is no JSON: leave the member out")


_PLAIN: Final = json.JSONDecoder()
_CAREFUL: Final = json.JSONDecoder(
    object_pairs_hook=_unique,
    parse_int=_safe_integer,
    parse_float=_finite,
    parse_constant=_refuse_constant,
)
