"""A command that passed every check before the journal is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel, ValidationError

from sagabus_bus.signatures import RecordCheck
from sagabus_core import ids
from sagabus_core.payload import JSON_CONTENT_TYPE
from sagabus_core.vocabulary import Phase
from sagabus_messages import (
    Command,
    MessageError,
    Meta,
    Record,
    SignatureMode,
    Topics,
    decode,
    pack_headers,
    source_of,
    unpack_headers,
    verify_identity,
)
from sagabus_participant.journal import Ask, Finding, Found, Reason
from sagabus_participant.registry import Participant, RegisteredStep

__all__ = ["Order", "check_writer", "pack_record", "read_input", "read_order", "unpack_record"]


@dataclass(frozen=True, slots=True)
class Order:
    """A command, the step that it is for, and the effects that it is about."""

    command: Command
    meta: Meta
    record: Record
    step: RegisteredStep
    ask: Ask
    execute_id: str

    @property
    def compensate_id(self) -> str:
        """The effect id of the undo; derived on demand, most orders never need it."""
        return _effect(self.command, Phase.COMPENSATE)

    @property
    def overtakes(self) -> bool:
        """Whether it asks or prevents, and so need not wait for a slow EXECUTE."""
        return self.ask.phase in {Phase.CANCEL, Phase.RESOLVE}


def read_order(record: Record, participant: Participant, topics: Topics) -> Order:
    """Return the checked command of a record.

    Raises `MessageError` with the code under which the record is dead-lettered; a forged or
    misdirected command reaches neither inbox nor journal.
    """
    envelope = decode(record, topics)
    command = envelope.body
    if not isinstance(command, Command):
        raise MessageError("wrong_topic", f"{record.topic} carries no commands")
    if envelope.meta.topic.participant != participant.name:
        raise MessageError(
            "wrong_participant",
            f"this is {participant.name}, the command is for {envelope.meta.topic.participant}",
        )
    verify_identity(command)
    step = participant.find(command.step)
    if step is None:
        raise MessageError("unknown_step", f"{participant.name} has no step {command.step}")
    return _order(command, envelope.meta, record, step)


def check_writer(order: Order, commands: RecordCheck) -> None:
    """Return if the orchestrator wrote the command, as far as this participant asks for proof.

    Raises `MessageError`: `signature_missing`, `signature_invalid`, or `producer_mismatch` for one
    that another party, whose key counts for its own records, has signed.
    """
    if commands.mode is SignatureMode.OFF:
        return
    if order.meta.source != _ORCHESTRATOR:
        raise MessageError("producer_mismatch", f"ce_source {order.meta.source!r} commands nobody")
    commands.check(order.record)


_ORCHESTRATOR: Final = source_of("orchestrator")


def _order(command: Command, meta: Meta, record: Record, step: RegisteredStep) -> Order:
    ask = Ask(
        command.command_id,
        command.phase,
        command.target,
        command.expires_at_ms,
        command.recovery_operation_id,
    )
    # verify_identity has derived the id of an EXECUTE already.
    forward = command.phase is Phase.EXECUTE
    execute_id = command.effect_id if forward else _effect(command, Phase.EXECUTE)
    return Order(command, meta, record, step, ask, execute_id)


def _effect(command: Command, phase: Phase) -> str:
    return ids.effect_id(
        command.saga_id, command.definition_version, command.activation, phase, None
    )


def read_input(order: Order) -> BaseModel | Finding:
    """Return the handler's input, or what a payload that breaks its contract is answered."""
    step, payload = order.step, order.command.payload
    problem = None
    if payload is not None and payload.content_type != JSON_CONTENT_TYPE:
        problem = f"the payload is {payload.content_type}, not {JSON_CONTENT_TYPE}"
    elif payload is not None and payload.schema_id != step.input_schema:
        problem = f"the payload is {payload.schema_id}, the step takes {step.input_schema}"
    if problem is None:
        try:
            return step.input.model_validate_json(b"{}" if payload is None else payload.body)
        except ValidationError as cause:
            problem = _explained(cause)
    kind = Found.REJECTED if step.options.invalid_payload == "reject" else Found.HALTED
    return Finding(kind, Reason("payload_contract_mismatch", problem))


def _explained(cause: ValidationError) -> str:
    errors = cause.errors(include_url=False, include_input=False, include_context=False)
    return "; ".join(
        f"{'.'.join(str(part) for part in error['loc']) or 'payload'}: {error['msg']}"
        for error in errors[:5]
    )


_TOPIC: Final = ":topic"
_KEY: Final = ":key"
_VALUE: Final = ":value"


def pack_record(record: Record) -> bytes:
    """Return a record as bytes, so that a worker reads what the consumer read."""
    return pack_headers(
        (
            (_TOPIC, record.topic.encode()),
            (_KEY, record.key or b""),
            (_VALUE, record.value or b""),
            *record.headers,
        )
    )


def unpack_record(packed: bytes) -> Record:
    """Return what `pack_record` packed; its position in the log is not kept."""
    (_, topic), (_, key), (_, value), *headers = unpack_headers(packed)
    return Record(topic.decode(), 0, 0, key, value, tuple(headers), 0)
