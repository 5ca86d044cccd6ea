"""What an operator sends in place of a command or start that was dead-lettered."""

from __future__ import annotations

from sagabus_core import ids
from sagabus_core.errors import InvalidValue
from sagabus_messages import (
    Command,
    Envelope,
    Kind,
    MessageError,
    OutboxRow,
    Record,
    Stamp,
    Start,
    Topics,
    decode,
    encode,
    verify_identity,
)
from sagabus_messages.payloads import read_body
from sagabus_orchestrator.errors import Refused
from sagabus_orchestrator.letters import Letter
from sagabus_orchestrator.signatures import SOURCE

__all__ = ["edited_row", "try_decode"]


def edited_row(
    letter: Letter, body: bytes, operation_id: str, topics: Topics, now_ms: int
) -> OutboxRow:
    """Return the record of an edited command or start: a new ce_id, checked like any record.

    The same operation again gives the same ce_id. Of a command only the data of its payload may
    differ: its ids are what makes the effect happen once, and how long it may start is what the
    engine relies on. Raises `Refused` (`edit_not_allowed`, `edit_changes_command`,
    `dead_letter_unreadable`, or the code of what is wrong with the body).
    """
    original = try_decode(letter.source, topics)
    try:
        match letter.kind:
            case Kind.COMMAND:
                row = _command(letter, body, operation_id, original, now_ms)
            case Kind.START:
                row = _start(letter, body, operation_id, original, now_ms)
            case _:
                raise _not_allowed(letter.kind)
        decode(Record(row.topic, 0, 0, row.key, row.value, row.headers, 0), topics)
    except (MessageError, InvalidValue) as error:
        raise Refused(error.code, f"the edited body: {error.detail}") from error
    return row


def try_decode(record: Record, topics: Topics) -> Envelope | None:
    """Return what a record says, or None if it cannot be read here either."""
    try:
        return decode(record, topics)
    except MessageError:
        return None


def _not_allowed(kind: str) -> Refused:
    return Refused(
        "edit_not_allowed",
        f"a {kind} is redriven as it is or not at all: only commands and starts may be edited",
    )


def _command(
    letter: Letter, body: bytes, operation_id: str, original: Envelope | None, now_ms: int
) -> OutboxRow:
    if original is None or not isinstance(original.body, Command):
        raise Refused(
            "dead_letter_unreadable",
            "the original command cannot be read, so nothing holds its ids: discard it, the saga "
            "goes on by its time-out",
        )
    edited, sent = Command.from_wire(*read_body(body, "payload")), original.body
    verify_identity(edited)
    if _identity(edited) != _identity(sent):
        raise Refused("edit_changes_command", "only the data of a command's payload may be changed")
    return encode(edited, letter.source.topic, _stamp(original, now_ms), redrive=operation_id)


def _identity(command: Command) -> tuple[Command, tuple[str, str] | None]:
    payload = command.payload
    contract = None if payload is None else (payload.content_type, payload.schema_id)
    return command.model_copy(update={"payload": None}), contract


def _start(
    letter: Letter, body: bytes, operation_id: str, original: Envelope | None, now_ms: int
) -> OutboxRow:
    edited = Start.from_wire(*read_body(body, "payload"))
    base = letter.id if original is None else original.meta.ce_id
    return encode(
        edited,
        letter.source.topic,
        _stamp(original, now_ms),
        ce_id=ids.redrive_id(base, operation_id),
        redrive=operation_id,
    )


def _stamp(original: Envelope | None, now_ms: int) -> Stamp:
    if original is None:
        return Stamp(SOURCE, now_ms)
    meta = original.meta
    return Stamp(meta.source, now_ms, meta.traceparent, meta.tracestate)
