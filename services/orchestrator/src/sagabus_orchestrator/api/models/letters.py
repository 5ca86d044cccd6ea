"""Dead letters as callers see them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from sagabus_orchestrator.api.models.fields import (
    Answer,
    InstantText,
    Key,
    Question,
    SagaId,
    Text,
    at,
)
from sagabus_orchestrator.letters import Letter
from sagabus_orchestrator.redrive import LetterOutcome

__all__ = [
    "DeedAnswer",
    "DiscardQuestion",
    "LetterAnswer",
    "LetterDetail",
    "LetterPage",
    "LettersQuestion",
    "RedriveQuestion",
]

State = Literal["open", "redriven", "discarded"]


class LettersQuestion(Question):
    """Which letters; what is left out does not restrict, but for `state`."""

    tenant: Key | None = None
    """Whose saga it is, else whom the letter itself names."""
    state: Literal["open", "redriven", "discarded", "any"] = "open"
    topic: str | None = Field(default=None, min_length=1, max_length=249)
    code: str | None = Field(default=None, min_length=1, max_length=100)
    kind: str | None = Field(default=None, min_length=1, max_length=40)
    saga_id: SagaId | None = None
    limit: int = Field(default=50, ge=1, le=1_000)
    cursor: str | None = Field(default=None, max_length=400)


class LetterAnswer(Answer):
    """A record that could not be handled, and what became of it."""

    id: str
    topic: str
    partition: int
    offset: int
    kind: str
    tenant: str | None
    saga_id: str | None
    code: str
    detail: str
    attempts: int
    first_seen: str
    state: State
    actor: str | None
    reason: str | None
    changed_at: InstantText | None

    @classmethod
    def of(cls, letter: Letter) -> LetterAnswer:
        """Return a letter as callers see it."""
        return cls(**_fields(letter))


class LetterPage(Answer):
    """Letters by topic, partition and offset: the order in which they may be redriven."""

    dead_letters: list[LetterAnswer]
    next_cursor: str | None


class PastDeed(Answer):
    """What was done to a letter."""

    operation_id: str
    kind: str
    actor: str
    reason: str
    effect: str
    edited: str | None
    at: InstantText


class LetterDetail(LetterAnswer):
    """A letter with the record as it stood at its source; bytes that are no text are escaped."""

    key: str | None
    headers: list[tuple[str, str]]
    body: str | None
    history: list[PastDeed]

    @classmethod
    def of_letter(cls, letter: Letter, history: Sequence[Mapping[str, Any]]) -> LetterDetail:
        """Return a letter as callers see it."""
        source = letter.source
        return cls(
            **_fields(letter),
            key=_readable(source.key),
            headers=[(name, _readable(value) or "") for name, value in source.headers],
            body=_readable(source.value),
            history=[
                PastDeed(
                    operation_id=row["operation_id"],
                    kind=row["kind"],
                    actor=row["actor"],
                    reason=row["reason"],
                    effect=row["effect"],
                    edited=_readable(row["edited"]),
                    at=at(row["recorded_at"]),
                )
                for row in history
            ],
        )


class DiscardQuestion(Question):
    """Why, and under which id."""

    reason: Text
    operation_id: Key | None = None
    """Your id: the same one again does nothing more."""
    dry_run: bool = False


class RedriveQuestion(DiscardQuestion):
    """Why, under which id, and perhaps what is sent instead."""

    edited_body: str | None = Field(default=None, max_length=262_144)
    """JSON text of a command or start that is sent in place of the original."""


class DeedAnswer(Answer):
    """What was done to a letter, or (`dry_run`) would be."""

    id: str
    effect: str
    operation_id: str
    repeated: bool
    dry_run: bool

    @classmethod
    def of(cls, done: LetterOutcome, operation_id: str, *, dry_run: bool) -> DeedAnswer:
        """Return what was done as callers see it."""
        return cls(
            id=done.letter.id,
            effect=done.effect,
            operation_id=operation_id,
            repeated=done.repeated,
            dry_run=dry_run,
        )


def _fields(letter: Letter) -> dict[str, Any]:
    topic, partition, offset = letter.place
    return {
        "id": letter.id,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "kind": letter.kind,
        "tenant": letter.tenant,
        "saga_id": letter.saga_id,
        "code": letter.reason.code,
        "detail": letter.reason.detail,
        "attempts": letter.attempts,
        "first_seen": letter.first_seen,
        "state": letter.state,
        "actor": letter.actor,
        "reason": letter.why,
        "changed_at": at(letter.changed_at) if letter.changed_at else None,
    }


def _readable(raw: bytes | None) -> str | None:
    return None if raw is None else raw.decode("utf-8", "backslashreplace")
