"""The field types of the API; the same rules as on Kafka."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, WithJsonSchema

from sagabus_core.errors import InvalidValue
from sagabus_core.names import NAME_PATTERN, TEXT_KEY_MAX, check_key
from sagabus_messages import format_instant
from sagabus_messages.fields import PAYLOAD_SCHEMA
from sagabus_messages.instants import INSTANT_PATTERN, parse_instant

__all__ = [
    "Answer",
    "InstantIn",
    "InstantText",
    "Key",
    "Name",
    "PayloadIn",
    "PayloadOut",
    "Question",
    "SagaId",
    "Text",
    "Version",
    "at",
    "at_ms",
    "moment",
]


class Question(BaseModel):
    """A request body: unknown members are refused, so that a typing error is no silent default."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Answer(BaseModel):
    """A response body: readers ignore members that they do not know."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)


def _key(value: str) -> str:
    try:
        return check_key(value, "value")
    except InvalidValue as error:
        raise ValueError(error.detail) from error


def _instant(value: str) -> str:
    parse_instant(value)
    return value


Name: TypeAlias = Annotated[str, StringConstraints(pattern=f"^{NAME_PATTERN}$")]
"""Workflow, participant or step."""

Key: TypeAlias = Annotated[
    str,
    Field(min_length=1, max_length=TEXT_KEY_MAX),
    AfterValidator(_key),
]
"""Tenant, business key or operation id: 1 to 128 printable characters."""

Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
"""A sentence of a person."""

SagaId: TypeAlias = Annotated[
    str,
    StringConstraints(pattern=r"^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"),
]
"""A UUID as lower-case text."""

Version: TypeAlias = Annotated[int, Field(ge=1, le=2**31 - 1)]
"""Version of a definition."""

InstantText: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "date-time"})]
"""RFC 3339 UTC with milliseconds."""

InstantIn: TypeAlias = Annotated[
    str, StringConstraints(pattern=INSTANT_PATTERN), AfterValidator(_instant)
]
"""RFC 3339 UTC with milliseconds, for example 2026-01-31T12:00:00.000Z."""

PayloadIn: TypeAlias = Annotated[dict[str, Any], WithJsonSchema(PAYLOAD_SCHEMA)]
PayloadOut: TypeAlias = Annotated[Any, WithJsonSchema(PAYLOAD_SCHEMA)]


def at(moment: datetime) -> str:
    """Return a moment as the API writes it."""
    return format_instant(int(moment.timestamp() * 1000))


def moment(text: str | None) -> datetime | None:
    """Return the moment that a caller wrote."""
    return None if text is None else datetime.fromtimestamp(parse_instant(text) / 1000, UTC)


def at_ms(moment_ms: int | None) -> str | None:
    """Return epoch milliseconds as the API writes them."""
    return None if moment_ms is None else format_instant(moment_ms)
