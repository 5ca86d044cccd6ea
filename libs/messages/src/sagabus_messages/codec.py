"""CloudEvents 1.0 over Kafka, binary mode: attributes in headers, the JSON body as value."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from sagabus_core.errors import SagabusError
from sagabus_core.names import MAX_BODY_BYTES, NAME_PATTERN, check_key
from sagabus_messages.errors import MessageError
from sagabus_messages.identity import ce_id_of, saga_of
from sagabus_messages.instants import format_instant, parse_instant
from sagabus_messages.models import (
    Command,
    Kind,
    Lifecycle,
    Message,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
    WireModel,
)
from sagabus_messages.payloads import read_body
from sagabus_messages.record import Headers, OutboxRow, Record
from sagabus_messages.strict_json import dump
from sagabus_messages.topics import TopicName, Topics

__all__ = [
    "REDRIVE_HEADER",
    "START_SOURCE_HEADER",
    "Envelope",
    "Meta",
    "Stamp",
    "decode",
    "encode",
    "source_of",
]

REDRIVE_HEADER: Final = "sagabus-redrive"
"""Id of the operation that edited and redrove a command or start; its ce_id derives from it."""

START_SOURCE_HEADER: Final = "sagabus-start-source"
"""On a lifecycle event that answers a start record: the ce_source of that record."""

_MODELS: Final[dict[Kind, type[WireModel]]] = {
    Kind.START: Start,
    Kind.COMMAND: Command,
    Kind.RESULT: Result,
    Kind.WAKEUP_REQUEST: WakeupRequest,
    Kind.WAKEUP: Wakeup,
    Kind.LIFECYCLE: Lifecycle,
}
_NAMES: Final = {
    kind: (f"sagabus.{kind}.v1".encode(), f"urn:sagabus:schema:{kind}:v1".encode()) for kind in Kind
}
_TYPE = re.compile(r"sagabus\.(start|command|result|wakeup\.request|wakeup|lifecycle)\.v([0-9]+)")
_SOURCE = re.compile(rf"urn:sagabus:{NAME_PATTERN}")
_TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_ATTRIBUTES = frozenset(
    {
        "ce_specversion",
        "ce_id",
        "ce_source",
        "ce_type",
        "ce_subject",
        "ce_time",
        "ce_dataschema",
        "content-type",
        REDRIVE_HEADER,
        START_SOURCE_HEADER,
    }
)


# Named tuples: several of each are made for every record, at a quarter of a frozen class's price.
class Stamp(NamedTuple):
    """What a writer adds to a message, once, when its outbox row is written."""

    source: str
    ce_time_ms: int
    traceparent: str | None = None
    tracestate: str | None = None


class Meta(NamedTuple):
    """The attributes of a record that was read: where it came from and what repeats it."""

    topic: TopicName
    ce_id: str
    source: str
    ce_time_ms: int
    saga_id: str
    traceparent: str | None
    tracestate: str | None
    redrive: str | None
    start_source: str | None


class Envelope(NamedTuple):
    """A record whose headers, key and body are well-formed and agree."""

    meta: Meta
    body: Message


def source_of(name: str) -> str:
    """Return the ce_source of a service or participant."""
    return f"urn:sagabus:{name}"


def encode(
    message: Message,
    topic: str,
    stamp: Stamp,
    *,
    ce_id: str | None = None,
    redrive: str | None = None,
    start_source: str | None = None,
) -> OutboxRow:
    """Return the record of a message.

    The ce_id derives from the message; only a start is given its own. `redrive` names the
    operation behind an edited command or start, `start_source` the ce_source of the start that a
    lifecycle event answers. Raises `MessageError`: `body_too_large`, `invalid_header`, or what
    the payload breaks.
    """
    identity = ce_id_of(message, redrive, start_source) or ce_id
    if identity is None or (ce_id is not None and ce_id != identity):
        raise MessageError("invalid_header", "a start, and only a start, is given its ce_id")
    _check_id(identity, "ce_id")
    if redrive is not None:
        _check_id(redrive, REDRIVE_HEADER)
    _check_source(stamp.source)
    saga = saga_of(message).encode()
    value = dump(message.to_wire())
    _check_size(value)
    ce_type, dataschema = _NAMES[message.kind]
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", identity.encode()),
        ("ce_source", stamp.source.encode()),
        ("ce_type", ce_type),
        ("ce_subject", saga),
        ("ce_time", format_instant(stamp.ce_time_ms).encode()),
        ("ce_dataschema", dataschema),
        ("content-type", b"application/json"),
    ]
    if stamp.traceparent is not None:
        headers.append(("traceparent", stamp.traceparent.encode()))
    if stamp.tracestate is not None:
        headers.append(("tracestate", stamp.tracestate.encode()))
    if redrive is not None:
        headers.append((REDRIVE_HEADER, redrive.encode()))
    if start_source is not None:
        headers.append((START_SOURCE_HEADER, start_source.encode()))
    return OutboxRow(topic, saga, tuple(headers), value)


def decode(record: Record, topics: Topics) -> Envelope:
    """Return what a record says, if every rule of the contract holds.

    A record of a dead-letter topic is read by the rules of its source topic. Raises
    `MessageError`; nothing about the record is then to be trusted. Whether ids re-derive and
    whether the inbox window covers the record is asked apart (`verify_identity`, `age_problem`).
    """
    topic = topics.parse(record.topic)
    headers = _attributes(record.headers)
    _check_type(headers, topic.kind)
    meta = _meta(topic, headers)
    if record.value is None:
        raise MessageError("missing_body", "the record has no value: send the JSON body")
    _check_size(record.value)
    model = _MODELS[topic.kind]
    body, text = read_body(record.value, model.payload_member)
    message: Message = model.from_wire(body, text)  # type: ignore[assignment]  # _MODELS is total
    _check_agreement(record.key, meta, message)
    return Envelope(meta, message)


def _attributes(headers: Headers) -> dict[str, bytes]:
    found = dict(headers)
    if len(found) != len(headers):
        names = [name for name, _ in headers if name in _ATTRIBUTES]
        if len(names) != len(set(names)):
            raise MessageError("invalid_header", "a CloudEvents header stands twice: send one")
    return found


def _meta(topic: TopicName, headers: dict[str, bytes]) -> Meta:
    if _required(headers, "ce_specversion") != "1.0":
        raise MessageError("invalid_header", "ce_specversion must be 1.0")
    if _required(headers, "content-type").partition(";")[0].strip() != "application/json":
        raise MessageError("invalid_header", "content-type must be application/json (binary mode)")
    source = _required(headers, "ce_source")
    _check_source(source)
    ce_id, ce_time = _required(headers, "ce_id"), _required(headers, "ce_time")
    redrive = _text(headers, REDRIVE_HEADER)
    _check_id(ce_id, "ce_id")
    if redrive is not None:
        _check_id(redrive, REDRIVE_HEADER)
    try:
        at_ms = parse_instant(ce_time)
    except MessageError as cause:
        raise MessageError("invalid_header", f"ce_time: {cause.detail}") from cause
    trace = headers.get("traceparent")
    if trace is not None and _TRACEPARENT.fullmatch(trace) is None:
        trace = None  # W3C: an unreadable trace is restarted, never a reason to refuse
    state = headers.get("tracestate") if trace is not None else None
    return Meta(
        topic,
        ce_id,
        source,
        at_ms,
        _required(headers, "ce_subject"),
        trace.decode() if trace is not None else None,
        state.decode() if state is not None and state.isascii() else None,
        redrive,
        _text(headers, START_SOURCE_HEADER),
    )


def _check_type(headers: dict[str, bytes], kind: Kind) -> None:
    known_type, known_schema = _NAMES[kind]
    if headers.get("ce_type") == known_type:
        if headers.get("ce_dataschema", known_schema) != known_schema:
            raise MessageError("header_body_mismatch", f"ce_dataschema is not that of a {kind}")
        return
    ce_type = _required(headers, "ce_type")
    found = _TYPE.fullmatch(ce_type)
    if found and found[1] == kind:
        raise MessageError(
            "unknown_version", f"version {found[2][:9]} of {kind} is not known here: send version 1"
        )
    raise MessageError(
        "header_body_mismatch", f"ce_type {ce_type[:80]!a} does not belong on a {kind} topic"
    )


def _check_agreement(key: bytes | None, meta: Meta, message: Message) -> None:
    saga = saga_of(message)
    if meta.saga_id != saga or key != saga.encode():
        raise MessageError(
            "header_body_mismatch", "record key, ce_subject and the saga id of the body must agree"
        )
    expected = ce_id_of(message, meta.redrive, meta.start_source)
    if expected is not None and meta.ce_id != expected:
        raise MessageError("header_body_mismatch", f"ce_id must be {expected} for this body")


def _check_size(value: bytes) -> None:
    if len(value) > MAX_BODY_BYTES:
        raise MessageError(
            "body_too_large",
            f"the body has {len(value)} of at most {MAX_BODY_BYTES} bytes: send a reference",
        )


def _check_id(value: str, name: str) -> None:
    try:
        check_key(value, name)
    except SagabusError as cause:
        raise MessageError("invalid_header", cause.detail) from cause


@lru_cache(maxsize=1024)
def _check_source(source: str) -> None:
    if _SOURCE.fullmatch(source) is None:
        raise MessageError(
            "invalid_header", f"ce_source {source[:80]!a} must be urn:sagabus:<service name>"
        )


def _required(headers: dict[str, bytes], name: str) -> str:
    text = _text(headers, name)
    if text is None:
        raise MessageError("missing_header", f"the record needs the header `{name}`")
    return text


def _text(headers: dict[str, bytes], name: str) -> str | None:
    value = headers.get(name)
    try:
        return value.decode() if value is not None else None
    except UnicodeDecodeError as cause:
        raise MessageError("invalid_header", f"the header `{name}` is not UTF-8") from cause
