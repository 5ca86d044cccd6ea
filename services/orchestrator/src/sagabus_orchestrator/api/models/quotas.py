"""Limits of tenants as callers see them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, TypeAlias

from pydantic import Field

from sagabus_orchestrator.api.models.fields import Answer, InstantText, Key, Question, at
from sagabus_orchestrator.tenants import DAY_MS, MINUTE_MS, Limit

__all__ = [
    "LimitAnswer",
    "LimitQuestion",
    "Limited",
    "QuotaAnswer",
    "QuotaList",
    "QuotaListQuestion",
    "RemovalQuestion",
]

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


class QuotaListQuestion(Question):
    """How many, and from where on."""

    limit: int = Field(default=100, ge=1, le=1_000)
    cursor: Key | None = None
    """Goes on after a page: its `next_cursor`."""


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


class QuotaList(Answer):
    """Tenants that have a limit, by name."""

    quotas: list[QuotaAnswer]
    next_cursor: str | None

    @classmethod
    def of(cls, found: Sequence[Limit], limit: int) -> QuotaList:
        """Return a page of `limit` tenants out of the limits of one tenant more."""
        grouped = [
            QuotaAnswer(tenant=tenant, limits=list(map(LimitAnswer.of, limits)))
            for tenant, limits in groupby(found, key=lambda each: each.tenant)
        ]
        more = len(grouped) > limit
        page = grouped[:limit]
        return cls(quotas=page, next_cursor=page[-1].tenant if more else None)
