"""What was said between the suite and the participant: the evidence of every verdict."""

from __future__ import annotations

from dataclasses import dataclass

from sagabus_messages import Command, Meta, OutboxRow, Record, Result

__all__ = ["Asked", "Dead", "Heard", "document_of", "line_of"]


@dataclass(frozen=True, slots=True)
class Asked:
    """A record that was written; `command` is None where it is no readable command."""

    at_ms: int
    row: OutboxRow
    note: str
    command: Command | None


@dataclass(frozen=True, slots=True)
class Heard:
    """A record of the result topic about one of our sagas; `problem` where it breaks the wire."""

    at_ms: int
    record: Record
    result: Result | None
    meta: Meta | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class Dead:
    """A record that the participant set aside."""

    at_ms: int
    record: Record


def line_of(said: Asked | Heard) -> str:
    """Return one line for people."""
    match said:
        case Asked(row=row, note=note, command=None):
            return f"-> {note} ({len(row.value or b'')} bytes to {row.topic})"
        case Asked(note=note, command=Command() as command):
            mark = f", {note}" if note else ""
            return f"-> {_question(command)} of {command.activation}{mark} [{command.command_id}]"
        case Heard(result=Result() as result):
            return f"<- {_question(result)}: {_answer(result)} [{result.command_id}]"
        case Heard(problem=problem):
            return f"<- unreadable: {problem}"
        case _:
            return "?"


def document_of(said: Asked | Heard) -> dict[str, object]:
    """Return the same for programs, with the whole body."""
    record = said.row if isinstance(said, Asked) else said.record
    return {
        "direction": "sent" if isinstance(said, Asked) else "received",
        "at_ms": said.at_ms,
        "line": line_of(said),
        "topic": record.topic,
        "headers": {name: value.decode(errors="replace") for name, value in record.headers},
        "body": (record.value or b"").decode(errors="replace"),
    }


def _question(message: Command | Result) -> str:
    target = f"({message.target})" if message.target else ""
    return f"{message.phase}{target} attempt {message.attempt}"


def _answer(result: Result) -> str:
    terminal = f"({result.terminal_status})" if result.terminal_status else ""
    reason = f" {result.reason_code}" if result.reason_code else ""
    output = f" output {result.output.body[:80].decode(errors='replace')}" if result.output else ""
    return f"{result.status}{terminal}{reason}{output}"
