"""Golden vectors: what another language must compute alike, with inputs and outputs."""

from __future__ import annotations

from typing import Any

from sagabus_core import ids
from sagabus_core.canonical import JsonValue, canonical_bytes, sha256_hex
from sagabus_core.vocabulary import Phase
from sagabus_messages.export.vector_messages import message_vectors
from sagabus_messages.export.vector_signatures import signature_vectors
from sagabus_messages.instants import format_instant, inbox_day
from sagabus_messages.record import Headers, pack_headers

__all__ = ["vector_files"]

_CANONICAL: dict[str, JsonValue] = {
    "members sort by UTF-16 code units": {"b": 1, "a": 2, "\U0001f600": 3, "\ufb33": 4, "é": 5},
    "numbers take their shortest form": [1.0, 1e21, 1e-7, 0.000001, 333333333.33333329, -0.0],
    "texts keep all but what must be escaped": '\u20ac$\u000f\nA\'B"\\\\"/\u007f',
    "integers reach 2^53-1": [9007199254740991, -9007199254740991],
    "nesting and literals": {"z": [True, False, None, {}], "": []},
}
_KEYS = [
    ("acme", "order", "o-1"),
    ("acme", "order", "ö-1"),
    ('a","b', "order", "x/y z"),
    ("a", "b", "c"),
]
_SHOP, _TOPIC = "urn:sagabus:shop", "sagabus.start.v1"
_MOMENTS = [0, 1, 951_782_399_999, 1_767_225_600_000, 4_102_444_800_123]


def vector_files() -> dict[str, Any]:
    """Return the content of each vector file by its name."""
    return {
        "canonical": [_canonical(name, value) for name, value in _CANONICAL.items()],
        "ids": {"namespace": str(ids.NAMESPACE), "vectors": _ids()},
        "shards": [{"key": key, "shard": ids.shard_of(_bytes(key))} for key in _shard_keys()],
        "headers": [_headers(headers) for headers in _HEADERS],
        "instants": [
            {"epoch_ms": at, "text": format_instant(at), "inbox_day": inbox_day(at).isoformat()}
            for at in _MOMENTS
        ],
        "messages": message_vectors(),
        "signatures": signature_vectors(),
    }


_HEADERS: list[Headers] = [
    (),
    (("a", b""),),
    (("ce_id", b"x"), ("ce_id", "é".encode()), ("binary", b"\x00\xff")),
]


def _canonical(name: str, value: JsonValue) -> dict[str, Any]:
    data = canonical_bytes(value)
    return {"name": name, "value": value, "canonical": data.decode(), "sha256": sha256_hex(data)}


def _bytes(key: str | None) -> bytes | None:
    return None if key is None else key.encode()


def _shard_keys() -> list[str | None]:
    return [None, "", "ö", *(ids.saga_id(*key) for key in _KEYS)]


def _headers(headers: Headers) -> dict[str, Any]:
    plain = [[name, value.hex()] for name, value in headers]
    return {"headers_hex_values": plain, "packed_hex": pack_headers(headers).hex()}


def _ids() -> list[dict[str, Any]]:
    saga = ids.saga_id(*_KEYS[0])
    effect = ids.effect_id(saga, 1, "book.pay", Phase.EXECUTE, None)
    undo = ids.effect_id(saga, 1, "book.pay", Phase.RESOLVE, Phase.COMPENSATE)
    command = ids.command_id(effect, 1)
    derived: list[tuple[list[JsonValue], str]] = [
        (["saga", *key], ids.saga_id(*key)) for key in _KEYS
    ]
    derived += [
        (["effect", saga, 1, "book.pay", "EXECUTE", None], effect),
        (["effect", saga, 1, "book.pay", "RESOLVE", "COMPENSATE"], undo),
        (["effect", saga, 2, "pick[3].pay", "CANCEL", None],
         ids.effect_id(saga, 2, "pick[3].pay", Phase.CANCEL, None)),
        (["command", effect, 1], command),
        (["command", effect, 12], ids.command_id(effect, 12)),
        (["result", command, 1], ids.result_event_id(command, 1)),
        (["redrive", command, "op-7"], ids.redrive_id(command, "op-7")),
        (["wakeup.request", saga, 9007199254740991], ids.wakeup_request_id(saga, 2**53 - 1)),
        (["wakeup", saga, 1], ids.wakeup_id(saga, 1)),
        (["lifecycle", saga, 4], ids.lifecycle_id(saga, 4)),
        (["start-answer", _SHOP, "s-1"], ids.start_answer_id(_SHOP, "s-1")),
        (["dead-letter", _TOPIC, 3, 1205], ids.dead_letter_id(_TOPIC, 3, 1205)),
        (["trigger", command, 2], ids.trigger_id(command, 2)),
    ]  # fmt: skip
    return [
        {"parts": parts, "canonical": canonical_bytes(parts).decode(), "id": value}
        for parts, value in derived
    ]
