"""Business payloads on the wire: `{content_type, schema_id, data}` or `{.., data_base64}`.

For JSON the stored bytes are the exact text of `data`, from its first to its last character, as
the producer wrote it: `12.50` stays `12.50`. White space around the value is no part of it.
"""

from __future__ import annotations

import base64
import binascii
import re
from functools import lru_cache

from sagabus_core.canonical import JsonValue
from sagabus_core.payload import (
    CONTENT_TYPE_PATTERN,
    JSON_CONTENT_TYPE,
    MAX_PAYLOAD_DEPTH,
    SCHEMA_ID_PATTERN,
    Payload,
)
from sagabus_messages.errors import MessageError
from sagabus_messages.strict_json import (
    RawJson,
    dump,
    member_text,
    parse_strict,
)

__all__ = [
    "json_payload",
    "json_value",
    "read_body",
    "read_payload",
    "write_payload",
]

_CONTENT_TYPE = re.compile(CONTENT_TYPE_PATTERN.removesuffix("$"))
_SCHEMA_ID = re.compile(SCHEMA_ID_PATTERN.removesuffix("$"))
_DATA = b'"data":'


def json_payload(value: JsonValue, schema_id: str) -> Payload:
    """Return `value` as a JSON payload in compact form."""
    return Payload(JSON_CONTENT_TYPE, schema_id, dump(value))


def json_value(payload: Payload) -> JsonValue:
    """Return the value of a JSON payload. Raises `MessageError` where its bytes are not JSON."""
    if not payload.is_json:
        raise MessageError("invalid_json", f"a payload of {payload.content_type} is not JSON")
    return parse_strict(payload.body, MAX_PAYLOAD_DEPTH)


def write_payload(payload: Payload) -> dict[str, object]:
    """Return the wire members, JSON text embedded unchanged. Refuses what no reader would take."""
    _check_contract(payload.content_type, payload.schema_id)
    members: dict[str, object] = {
        "content_type": payload.content_type,
        "schema_id": payload.schema_id,
    }
    if payload.is_json:
        parse_strict(payload.body, MAX_PAYLOAD_DEPTH)
        members["data"] = RawJson(payload.body)
    else:
        members["data_base64"] = base64.b64encode(payload.body).decode()
    return members


def read_payload(members: object, text: bytes | None) -> Payload:
    """Return the payload of parsed wire members; `text` is the exact text of their `data`.

    Without the text (a caller that holds only the tree) the compact form of `data` is stored.
    """
    if not isinstance(members, dict):
        raise MessageError("invalid_field", "a payload must be an object")
    content_type = _text(members, "content_type")
    schema_id = _text(members, "schema_id")
    _check_contract(content_type, schema_id)
    wanted = "data" if content_type == JSON_CONTENT_TYPE else "data_base64"
    if wanted not in members or len(members.keys() & {"data", "data_base64"}) != 1:
        raise MessageError(
            "forbidden_combination",
            f"a payload of {content_type} carries exactly `{wanted}`: `data` is for JSON alone",
        )
    if wanted == "data":
        return Payload(content_type, schema_id, dump(members["data"]) if text is None else text)
    return Payload(content_type, schema_id, _base64(_text(members, wanted)))


def read_body(raw: bytes, member: str | None) -> tuple[dict[str, JsonValue], bytes | None]:
    """Return a strictly parsed body and the exact text of `member`.data, where there is any.

    Where the data stands last, as sagabus itself writes it, it is cut out of the text: a shell
    with null in its place and the data are then parsed apart, and the two being JSON proves the
    cut right. Everything else takes the longer way.
    """
    if member is not None and raw.endswith(b"}}"):
        cut = raw.find(_DATA) + len(_DATA)
        if cut >= len(_DATA) and (found := _read_split(raw, cut, member)):
            return found
    tree = parse_strict(raw)
    if not isinstance(tree, dict):
        raise MessageError("invalid_field", "the body must be a JSON object")
    inner = tree.get(member) if member else None
    if member is None or not isinstance(inner, dict) or "data" not in inner:
        return tree, None
    return tree, member_text(raw, member, "data")


def _read_split(
    raw: bytes, cut: int, member: str
) -> tuple[dict[str, JsonValue], bytes | None] | None:
    text = raw[cut:-2]
    try:
        shell = parse_strict(raw[:cut] + b"null}}")
        parse_strict(text, MAX_PAYLOAD_DEPTH)
    except MessageError:
        return None
    if not isinstance(shell, dict) or next(reversed(shell), None) != member:
        return None
    inner = shell[member]
    if not isinstance(inner, dict) or next(reversed(inner), None) != "data":
        return None
    # Only white space could separate the cut from the value: it is no part of the text.
    return shell, text.strip(b" \t\n\r")


def _text(members: dict[str, JsonValue], name: str) -> str:
    value = members.get(name)
    if name not in members:
        raise MessageError("missing_field", f"a payload needs `{name}`")
    if not isinstance(value, str):
        raise MessageError("invalid_field", f"`{name}` of a payload must be a text")
    return value


def _base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        data = b""
    if base64.b64encode(data).decode() != text:
        raise MessageError("invalid_field", "`data_base64` must be padded RFC 4648 base64")
    return data


@lru_cache(maxsize=1024)
def _check_contract(content_type: str, schema_id: str) -> None:
    if _CONTENT_TYPE.fullmatch(content_type) is None:
        raise MessageError(
            "invalid_field", "`content_type` must be a lower-case type/subtype without parameters"
        )
    if _SCHEMA_ID.fullmatch(schema_id) is None:
        raise MessageError("invalid_field", "`schema_id` must be 1 to 255 visible ASCII characters")
