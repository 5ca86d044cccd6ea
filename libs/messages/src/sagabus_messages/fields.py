"""The field types of the envelopes: what pydantic checks and what the JSON Schemas say.

JSON Schema patterns keep to what every regular-expression dialect reads alike; where a rule needs
more (printable Unicode), the schema says less and its description says all.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias

from pydantic import AfterValidator, Field, InstanceOf, Strict, StringConstraints, WithJsonSchema

from sagabus_core.canonical import MAX_SAFE_INTEGER
from sagabus_core.names import (
    ACTIVATION_MAX,
    NAME_PATTERN,
    REASON_CODE_PATTERN,
    TEXT_KEY_MAX,
    check_key,
)
from sagabus_core.payload import (
    CONTENT_TYPE_PATTERN,
    JSON_CONTENT_TYPE,
    SCHEMA_ID_PATTERN,
    Payload,
)
from sagabus_messages.instants import INSTANT_PATTERN, MAX_INSTANT_MS

__all__ = [
    "PAYLOAD_SCHEMA",
    "Activation",
    "Counter",
    "Digest",
    "Generation",
    "Id",
    "Instant",
    "Key",
    "Name",
    "OpaqueId",
    "PayloadField",
    "ReasonCode",
    "ReasonDetail",
]

_VISIT = rf"{NAME_PATTERN}(\[[1-9][0-9]{{0,8}}\])?"
_CONTROL = r"^[^\u0000-\u001f\u007f-\u009f]*$"
_PRINTABLE = (
    "1 to 128 printable characters: letters, marks, numbers, punctuation, symbols, space U+0020"
)


def _key(value: str) -> str:
    return check_key(value, "tenant, business key or record id")


Name: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
"""Workflow, participant or step."""

Key: TypeAlias = Annotated[
    str,
    AfterValidator(_key),
    WithJsonSchema(
        {
            "type": "string",
            "minLength": 1,
            "maxLength": TEXT_KEY_MAX,
            "pattern": _CONTROL,
            "description": _PRINTABLE,
        }
    ),
]
"""Tenant or business key."""

OpaqueId: TypeAlias = Key
"""An id that somebody else chose: the ce_id of a start."""

Id: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
]
"""A UUID as lower-case text."""

Digest: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
"""SHA-256 as lower-case hexadecimal digits."""

Activation: TypeAlias = Annotated[
    str, StringConstraints(pattern=rf"^{_VISIT}(\.{_VISIT})*$", max_length=ACTIVATION_MAX)
]
"""Path of one visit of a step node: names joined by dots, a loop visit as `[n]` from 1."""

Counter: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=2**31 - 1)]
"""Attempt or definition version; the first is 1."""

Generation: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=MAX_SAFE_INTEGER)]
"""Wake-up generation or snapshot revision."""

ReasonCode: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{REASON_CODE_PATTERN}$")]

ReasonDetail: TypeAlias = Annotated[str, StringConstraints(max_length=2000)]
"""A sentence for people; never parsed."""

Instant: TypeAlias = Annotated[
    int,
    Strict(),
    Field(ge=0, le=MAX_INSTANT_MS),
    WithJsonSchema({"type": "string", "format": "date-time", "pattern": INSTANT_PATTERN}),
]
"""Epoch milliseconds inside; RFC 3339 UTC with milliseconds on the wire."""

PAYLOAD_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "description": "Business data, stored as bytes and carried unchanged",
    "required": ["content_type", "schema_id"],
    "properties": {
        "content_type": {"type": "string", "pattern": CONTENT_TYPE_PATTERN},
        "schema_id": {"type": "string", "pattern": SCHEMA_ID_PATTERN},
        "data": {"description": "The JSON value itself, for content type application/json"},
        "data_base64": {
            "type": "string",
            "contentEncoding": "base64",
            "pattern": "^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$",
            "description": "Raw bytes, for every other content type",
        },
    },
    "if": {
        "properties": {"content_type": {"const": JSON_CONTENT_TYPE}},
        "required": ["content_type"],
    },
    "then": {"required": ["data"], "not": {"required": ["data_base64"]}},
    "else": {"required": ["data_base64"], "not": {"required": ["data"]}},
}

PayloadField: TypeAlias = Annotated[InstanceOf[Payload], WithJsonSchema(PAYLOAD_SCHEMA)]
"""A `sagabus_core.payload.Payload`; `read_payload` and `write_payload` carry it over the wire."""
