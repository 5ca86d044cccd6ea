"""What ties a message to its saga and its record: ids that re-derive, and the rules of ce_id."""

from __future__ import annotations

from typing import assert_never

from sagabus_core import ids
from sagabus_messages.errors import MessageError
from sagabus_messages.models import (
    Command,
    Lifecycle,
    Message,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
)

__all__ = ["ce_id_of", "saga_of", "verify_identity"]


def saga_of(message: Message) -> str:
    """Return the saga id of a message; a start derives it from its key."""
    if isinstance(message, Start):
        return ids.saga_id(message.tenant, message.workflow, message.business_key)
    return message.saga_id


def verify_identity(message: Command | Result) -> None:
    """Raise `identity_mismatch` unless saga id, effect id and command id re-derive."""
    saga = ids.saga_id(message.tenant, message.workflow, message.business_key)
    if message.saga_id != saga:
        raise _mismatch("saga_id", "tenant, workflow and business key")
    effect = ids.effect_id(
        saga, message.definition_version, message.activation, message.phase, message.target
    )
    if message.effect_id != effect:
        raise _mismatch("effect_id", "saga, definition version, activation, phase and target")
    if message.command_id != ids.command_id(effect, message.attempt):
        raise _mismatch("command_id", "effect id and attempt")


def ce_id_of(
    message: Message, redrive: str | None = None, start_source: str | None = None
) -> str | None:
    """Return the one ce_id that a record of this message may carry; None where any will do.

    A start chooses its own. An edited redrive derives from the command and the operation that
    redrove it; an answer to a start from the source and id of the start record.
    """
    match message:
        case Start():
            return None
        case Command():
            return (
                message.command_id
                if redrive is None
                else ids.redrive_id(message.command_id, redrive)
            )
        case Result():
            return message.event_id
        case WakeupRequest():
            return ids.wakeup_request_id(message.saga_id, message.generation)
        case Wakeup():
            return ids.wakeup_id(message.saga_id, message.generation)
        case Lifecycle():
            return _lifecycle_ce_id(message, start_source)
        case _:
            assert_never(message)


def _lifecycle_ce_id(message: Lifecycle, start_source: str | None) -> str:
    if start_source is not None and message.start_id is not None:
        return ids.start_answer_id(start_source, message.start_id)
    if message.revision is not None:
        return ids.lifecycle_id(message.saga_id, message.revision)
    raise MessageError(
        "missing_header",
        "an answer to a start needs the header `sagabus-start-source`: the ce_source of the start",
    )


def _mismatch(name: str, origin: str) -> MessageError:
    return MessageError(
        "identity_mismatch", f"`{name}` does not derive from {origin}: copy ids, never choose them"
    )
