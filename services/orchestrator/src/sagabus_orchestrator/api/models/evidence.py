"""Journal and audit as callers see them."""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

from pydantic import Field

from sagabus_orchestrator.api.models.fields import (
    Answer,
    InstantIn,
    InstantText,
    Key,
    Name,
    Question,
    SagaId,
    at,
)
from sagabus_orchestrator.audit import HeldBack
from sagabus_orchestrator.audit.pages import AuditRow, FactRow, Page

__all__ = [
    "AuditAnswer",
    "AuditPageAnswer",
    "AuditQuestion",
    "FactAnswer",
    "FactPageAnswer",
    "JournalFactAnswer",
    "JournalPageAnswer",
    "PageQuestion",
]

T = TypeVar("T")


class PageQuestion(Question):
    """Which facts, and from where on; what is left out does not restrict."""

    tenant: Key | None = None
    workflow: Name | None = None
    saga_id: SagaId | None = None
    kind: str | None = Field(default=None, min_length=1, max_length=100)
    actor: Key | None = None
    since: InstantIn | None = None
    until: InstantIn | None = None
    limit: int = Field(default=100, ge=1, le=1_000)
    cursor: str | None = Field(default=None, max_length=400)
    """Goes on after a page: its `cursor`, which is there also on the newest page."""


class AuditQuestion(PageQuestion):
    """Which audit rows, and from where on."""

    outcome: Literal["done", "refused"] | None = None


class HeldAnswer(Answer):
    """Newer rows exist or may, and wait for a transaction that runs now."""

    since_ms: int
    application: str | None
    state: str | None
    pid: int | None
    database: str | None

    @classmethod
    def of(cls, held: HeldBack, *, all_tenants: bool) -> HeldAnswer:
        """Return what a caller may know of it: whose transaction it is, if they see all tenants."""
        if not all_tenants:
            held = HeldBack(held.since_ms)
        return cls(**{name: getattr(held, name) for name in cls.model_fields})


class _PageAnswer(Answer, Generic[T]):
    """Rows in the order of their numbers: no row that commits later comes before them."""

    cursor: str
    """Go on here, whether or not there is more now."""
    more: bool
    """There is more to read at once."""
    held: HeldAnswer | None
    rows: list[T]


class JournalFactAnswer(Answer):
    """One fact of one saga, as its bytes are stored and chained."""

    revision: int
    ordinal: int
    fact: dict[str, Any]
    """Its text stands in the answer byte for byte: head = SHA-256(previous head, text)."""
    head: str
    recorded_at: InstantText


class JournalPageAnswer(Answer):
    """Facts of one saga in order."""

    facts: list[JournalFactAnswer]
    next_cursor: str | None
    """Goes on after this page; null if this was the last fact so far."""


class FactAnswer(Answer):
    """One fact of the journal of all sagas."""

    seq: int
    saga_id: str
    tenant: str | None
    workflow: str | None
    business_key: str | None
    revision: int
    ordinal: int
    fact: dict[str, Any] | None
    head: str
    recorded_at: InstantText

    @classmethod
    def of(cls, row: FactRow) -> FactAnswer:
        """Return a fact as callers see it."""
        return cls(
            seq=row.seq,
            saga_id=row.saga_id,
            tenant=row.tenant,
            workflow=row.workflow,
            business_key=row.business_key,
            revision=row.revision,
            ordinal=row.ordinal,
            fact=None if row.body is None else dict(row.body),
            head=row.head,
            recorded_at=at(row.recorded_at),
        )


class FactPageAnswer(_PageAnswer[FactAnswer]):
    """Facts of all sagas; `begins_on`: earlier months are gone from the journal."""

    begins_on: str | None

    @classmethod
    def of(cls, page: Page[FactRow], *, all_tenants: bool) -> FactPageAnswer:
        """Return a page as callers see it."""
        return cls(
            rows=list(map(FactAnswer.of, page.rows)),
            begins_on=page.begins_on.isoformat() if page.begins_on else None,
            **_common(page, all_tenants=all_tenants),
        )


class AuditAnswer(Answer):
    """One management operation, done or refused."""

    seq: int
    kind: str
    actor: str
    permission: str
    tenant: str
    workflow: str
    saga_id: str | None
    subject: str
    operation_id: str | None
    reason: str
    expected: str | None
    outcome: str
    code: str
    detail: str
    withheld: int
    """Refusals of the same callers that were counted, not written, before this one."""
    recorded_at: InstantText

    @classmethod
    def of(cls, row: AuditRow) -> AuditAnswer:
        """Return a row as callers see it."""
        values = {name: getattr(row, name) for name in cls.model_fields}
        return cls(**{**values, "recorded_at": at(row.recorded_at)})


class AuditPageAnswer(_PageAnswer[AuditAnswer]):
    """Management operations, done and refused."""

    withheld: int | None
    """Refusals that came too fast to be written: the next row will say so. Null for callers who
    do not see all tenants."""

    @classmethod
    def of(cls, page: Page[AuditRow], withheld: int | None) -> AuditPageAnswer:
        """Return a page as callers see it; `withheld` is None for who does not see all tenants."""
        return cls(
            rows=list(map(AuditAnswer.of, page.rows)),
            withheld=withheld,
            **_common(page, all_tenants=withheld is not None),
        )


def _common(page: Page[Any], *, all_tenants: bool) -> dict[str, Any]:
    held = HeldAnswer.of(page.held, all_tenants=all_tenants) if page.held is not None else None
    return {"cursor": page.cursor, "more": page.more, "held": held}
