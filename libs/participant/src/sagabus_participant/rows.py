"""Rows of the journal tables as values, and values as columns: plain functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from sagabus_core.payload import Payload
from sagabus_core.vocabulary import ResultStatus, TerminalStatus
from sagabus_participant.journal import Effect, EffectState, Halt, Reason, Reply

__all__ = [
    "Remembered",
    "Row",
    "SavedEffect",
    "answer_columns",
    "effect_columns",
    "read_answer",
    "read_effect",
    "success_columns",
]


class Row(Protocol):
    """A database row by column name."""

    def __getitem__(self, key: str, /) -> Any:  # noqa: ANN401  (whatever the column holds)
        """Return the value of a column."""


@dataclass(frozen=True, slots=True)
class Remembered:
    """An answer that was given to a command; its event was number `ordinal`."""

    reply: Reply
    ordinal: int
    answered_at_ms: int


@dataclass(frozen=True, slots=True)
class SavedEffect:
    """An effect to be written; `intent_record` is the command under which it was begun now."""

    effect_id: str
    activation_id: str
    saga_id: str
    step: str
    effect: Effect
    intent_record: bytes | None

    @property
    def is_plain_success(self) -> bool:
        """Whether `save_successes` can write it: its row exists, and there is nothing to add."""
        effect = self.effect
        return (
            effect.state is EffectState.SUCCEEDED
            and self.effect_id == self.activation_id
            and (effect.output is None or effect.output.is_json)
            and (effect.reason, effect.halt, effect.intent_command_id) == (None, None, None)
        )


def read_effect(row: Row) -> Effect:
    """Return the effect of a row of `participant_effect`."""
    output = None
    if row["output"] is not None:
        output = Payload(row["output_content_type"], row["output_schema_id"], row["output"])
    halt = None
    if row["halt_code"] is not None:
        halt = Halt(Reason(row["halt_code"], row["halt_detail"]), row["halt_operation_id"])
    intent = row["intent_command_id"]
    return Effect(
        EffectState(row["state"]),
        _reason(row),
        output,
        str(intent) if intent is not None else None,
        halt,
    )


def effect_columns(saved: Iterable[SavedEffect]) -> list[list[object]]:
    """Return the arrays of the `save_effects` query."""
    return _columns([_effect_row(one) for one in saved], 15)


def success_columns(saved: Sequence[SavedEffect]) -> list[list[object]]:
    """Return the arrays of the `save_successes` query."""
    outputs = [one.effect.output for one in saved]
    return [
        [one.effect_id for one in saved],
        [output.schema_id if output else None for output in outputs],
        [output.body if output else None for output in outputs],
    ]


def _effect_row(saved: SavedEffect) -> tuple[object, ...]:
    effect = saved.effect
    reason, output, halt = effect.reason, effect.output, effect.halt
    return (
        saved.effect_id,
        saved.activation_id,
        saved.saga_id,
        saved.step,
        effect.state.value,
        reason.code if reason else None,
        reason.detail if reason else None,
        output.content_type if output else None,
        output.schema_id if output else None,
        output.body if output else None,
        effect.intent_command_id,
        saved.intent_record,
        halt.reason.code if halt else None,
        halt.reason.detail if halt else None,
        halt.recovery_operation_id if halt else None,
    )


def read_answer(row: Row) -> Remembered:
    """Return the answer of a row of `participant_answer`."""
    terminal = row["terminal_status"]
    reply = Reply(
        ResultStatus(row["status"]),
        TerminalStatus(terminal) if terminal else None,
        _reason(row),
        final=False,
    )
    return Remembered(reply, row["ordinal"], row["answered_at_ms"])


def answer_columns(answers: Mapping[str, Remembered]) -> list[list[object]]:
    """Return the arrays of the `save_answers` query."""
    return _columns([_answer_row(command, one) for command, one in answers.items()], 7)


def _answer_row(command_id: str, answer: Remembered) -> tuple[object, ...]:
    reply = answer.reply
    return (
        command_id,
        answer.ordinal,
        reply.status.value,
        reply.terminal_status.value if reply.terminal_status else None,
        reply.reason.code if reply.reason else None,
        reply.reason.detail if reply.reason else None,
        answer.answered_at_ms,
    )


def _reason(row: Row) -> Reason | None:
    if row["reason_code"] is None:
        return None
    return Reason(row["reason_code"], row["reason_detail"] or "")


def _columns(rows: Sequence[tuple[object, ...]], width: int) -> list[list[object]]:
    return [[row[column] for row in rows] for column in range(width)]
