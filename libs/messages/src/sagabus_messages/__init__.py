"""Wire models, CloudEvents codec, topic catalogue and contract export of sagabus."""

from sagabus_messages.codec import (
    REDRIVE_HEADER,
    START_SOURCE_HEADER,
    Envelope,
    Meta,
    Stamp,
    decode,
    encode,
    source_of,
)
from sagabus_messages.errors import MessageError
from sagabus_messages.identity import ce_id_of, saga_of, verify_identity
from sagabus_messages.instants import age_problem, format_instant, inbox_day, parse_instant
from sagabus_messages.models import (
    START_REFUSED,
    Command,
    Kind,
    Lifecycle,
    Message,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
)
from sagabus_messages.payloads import json_payload, json_value
from sagabus_messages.record import Headers, OutboxRow, Record, pack_headers, unpack_headers
from sagabus_messages.signatures import (
    SIGNATURE_HEADER,
    UNVERIFIED,
    SignatureMode,
    Signer,
    UnknownSigningKey,
    Verifier,
    VerifyKey,
    read_verify_keys,
)
from sagabus_messages.strict_json import parse_strict
from sagabus_messages.topics import TopicName, Topics, TopicSpec

__all__ = [
    "REDRIVE_HEADER",
    "SIGNATURE_HEADER",
    "START_REFUSED",
    "START_SOURCE_HEADER",
    "UNVERIFIED",
    "Command",
    "Envelope",
    "Headers",
    "Kind",
    "Lifecycle",
    "Message",
    "MessageError",
    "Meta",
    "OutboxRow",
    "Record",
    "Result",
    "SignatureMode",
    "Signer",
    "Stamp",
    "Start",
    "TopicName",
    "TopicSpec",
    "Topics",
    "UnknownSigningKey",
    "Verifier",
    "VerifyKey",
    "Wakeup",
    "WakeupRequest",
    "age_problem",
    "ce_id_of",
    "decode",
    "encode",
    "format_instant",
    "inbox_day",
    "json_payload",
    "json_value",
    "pack_headers",
    "parse_instant",
    "parse_strict",
    "read_verify_keys",
    "saga_of",
    "source_of",
    "unpack_headers",
    "verify_identity",
]
