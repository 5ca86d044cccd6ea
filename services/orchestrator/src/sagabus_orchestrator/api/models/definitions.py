"""Definitions as callers see them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from sagabus_core.definitions import DefinitionState
from sagabus_orchestrator.api.models.fields import Answer, Key, Question
from sagabus_orchestrator.registry import Published

__all__ = ["DefinitionAnswer", "DefinitionDocument", "DefinitionList", "SteerQuestion"]


class DefinitionAnswer(Answer):
    """A published definition."""

    workflow: str
    version: int
    tenant: str | None
    """Its owner; null: it belongs to all tenants."""
    state: DefinitionState
    digest: str

    @classmethod
    def of(cls, published: Published) -> DefinitionAnswer:
        """Return a definition as callers see it."""
        return cls(**definition_fields(published))


class DefinitionDocument(DefinitionAnswer):
    """A published definition with what it says."""

    document: dict[str, Any]


class DefinitionList(Answer):
    """Everything published that the caller may see."""

    definitions: list[DefinitionAnswer]


class SteerQuestion(Question):
    """Whose definition, and why."""

    tenant: Key | None = None
    """Its owner; null: the definition for all tenants."""
    reason: Annotated[str, Field(max_length=1_000)] = ""
    """Kept in the audit."""


def definition_fields(published: Published) -> dict[str, Any]:
    """Return the members that every answer about a definition has."""
    ref = published.ref
    return {
        "workflow": ref.workflow,
        "version": ref.version,
        "tenant": ref.scope or None,
        "state": published.state,
        "digest": published.digest,
    }
