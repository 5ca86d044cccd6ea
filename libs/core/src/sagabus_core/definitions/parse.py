"""From a published document to a validated `Definition`."""

from __future__ import annotations

from collections.abc import Mapping

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions.conditions import Conditions
from sagabus_core.definitions.model import Definition

__all__ = ["definition_digest", "parse_definition"]


def definition_digest(document: Mapping[str, JsonValue]) -> str:
    """Return the SHA-256 of the RFC 8785 form of what was published."""
    raise NotImplementedError


def parse_definition(document: JsonValue, conditions: Conditions) -> Definition:
    """Return the definition, or raise `InvalidDefinition` with every problem."""
    raise NotImplementedError
