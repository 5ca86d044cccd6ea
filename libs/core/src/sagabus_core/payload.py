"""Business data as it travels: opaque bytes with their declared contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = [
    "CONTENT_TYPE_PATTERN",
    "JSON_CONTENT_TYPE",
    "MAX_PAYLOAD_DEPTH",
    "SCHEMA_ID_PATTERN",
    "Payload",
    "PayloadContract",
]

JSON_CONTENT_TYPE: Final = "application/json"

CONTENT_TYPE_PATTERN: Final = r"^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$"
"""A lower-case type/subtype without parameters."""

SCHEMA_ID_PATTERN: Final = r"^[!-~]{1,255}$"
"""Visible ASCII."""

MAX_PAYLOAD_DEPTH: Final = 62
"""Deepest nesting of JSON data: 64 of a body, less the body itself and the payload's object."""


@dataclass(frozen=True, slots=True)
class PayloadContract:
    """What a step or a workflow says about its payload: media type and schema identity."""

    content_type: str
    schema_id: str


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes that are stored and carried unchanged; for JSON the text of the `data` member."""

    content_type: str
    schema_id: str
    body: bytes

    @property
    def contract(self) -> PayloadContract:
        """The declared contract of these bytes."""
        return PayloadContract(self.content_type, self.schema_id)

    @property
    def is_json(self) -> bool:
        """Whether the body is JSON text."""
        return self.content_type == JSON_CONTENT_TYPE
