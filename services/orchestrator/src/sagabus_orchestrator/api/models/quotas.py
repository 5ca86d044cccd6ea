"""Limits of tenants as callers see them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from pydantic import Field

from sagabus_orchestrator.api.models.fields import Answer, InstantText, Question, at
from sagabus_orchestrator.tenants import DAY_MS, MINUTE_MS, Limit

__all__ = ["LimitAnswer", "LimitQuestion", "Limited", "QuotaAnswer", "RemovalQuestion"]

Limited: TypeAlias = Literal["running", "start", "operation"]
"""Sagas that run at once; starts, or operations, in a window of the database clock."""


class LimitQuestion(Question):
    """How much, and why."""

    most: int = Field(ge=0, le=2**53 - 1)
    window_ms: int = Field(default=MINUTE_MS, ge=1_000, le=DAY_MS)
    """Of starts and operations; a limit of running sagas has none."""
    reason: str = Field(default="", max_length=1_000)
    """Kept in the audit."""


class RemovalQuestion(Question):
    """Why."""

    reason: str = Field(default="", max_length=1_000)
    """Kept in the audit."""


class LimitAnswer(Answer):
    """One limit with its use now."""

    action: str
    most: int
    used: int
    window_ms: int | None
    resets_at: InstantText | None

    @classmethod
    def of(cls, limit: Limit) -> LimitAnswer:
        """Return a limit as callers see it."""
        return cls(
            action=limit.action,
            most=limit.most,
            used=limit.used,
            window_ms=limit.window_ms,
            resets_at=at(limit.resets_at) if limit.resets_at is not None else None,
        )


class QuotaAnswer(Answer):
    """What a tenant may do; what is not named is not limited, and not counted."""

    tenant: str
    limits: list[LimitAnswer]
