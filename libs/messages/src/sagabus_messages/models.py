"""The six messages of sagabus, version 1.

Each is frozen, checks its own fields and their combinations when it is made, and ignores unknown
members when it is read. Instants are epoch milliseconds inside (`expires_at_ms`) and RFC 3339 text
outside (`expires_at`); `from_wire` and `to_wire` are the only crossing.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import ALLOWED_RESULTS, Phase, ResultStatus, SagaStatus, TerminalStatus
from sagabus_messages import conditions
from sagabus_messages.errors import MessageError
from sagabus_messages.fields import (
    Activation,
    Counter,
    Digest,
    Generation,
    Id,
    Instant,
    Key,
    Name,
    OpaqueId,
    PayloadField,
    ReasonCode,
    ReasonDetail,
)
from sagabus_messages.instants import format_instant, parse_instant
from sagabus_messages.payloads import read_payload, write_payload

__all__ = [
    "START_REFUSED",
    "Command",
    "Kind",
    "Lifecycle",
    "Message",
    "Result",
    "Start",
    "Wakeup",
    "WakeupRequest",
    "WireModel",
]

START_REFUSED: Literal["START_REFUSED"] = "START_REFUSED"
"""Status of the lifecycle event that answers a start which created nothing."""


class Kind(StrEnum):
    """The middle of a ce_type and of a topic name."""

    START = "start"
    COMMAND = "command"
    RESULT = "result"
    WAKEUP_REQUEST = "wakeup.request"
    WAKEUP = "wakeup"
    LIFECYCLE = "lifecycle"


class WireModel(BaseModel):
    """What the six messages share."""

    model_config = ConfigDict(frozen=True, extra="ignore", validate_by_name=True)

    kind: ClassVar[Kind]
    payload_member: ClassVar[Literal["payload", "output"] | None] = None
    _instants: ClassVar[tuple[str, ...]] = ()
    _wire: ClassVar[tuple[tuple[str, str], ...]]

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Note once per class how its attributes are called on the wire."""
        names = [(name, str(f.validation_alias or name)) for name, f in cls.model_fields.items()]
        cls._wire = tuple(names)
        cls._instants = tuple(wire for name, wire in names if name != wire)

    @classmethod
    def from_wire(cls, body: dict[str, Any], data_text: bytes | None = None) -> Self:
        """Return the message of a strictly parsed body, which is consumed.

        Raises `MessageError`: `missing_field`, `invalid_field`, `invalid_instant`, `invalid_key`
        or `forbidden_combination`.
        """
        for name in cls._instants:
            if body.get(name) is not None:
                body[name] = parse_instant(body[name])
        member = cls.payload_member
        if member is not None and body.get(member) is not None:
            body[member] = read_payload(body[member], data_text)
        try:
            return cls.model_validate(body, by_alias=True, by_name=False)
        except ValidationError as cause:
            raise _translated(cause) from cause
        except MessageError:
            raise
        except SagabusError as cause:
            raise MessageError(cause.code, cause.detail) from cause

    def to_wire(self) -> dict[str, object]:
        """Return the members of the body in the order of the contract, absent ones left out."""
        body: dict[str, object] = {}
        fields = self.__dict__  # a look-up per field through the model is the half of the price
        for name, wire in self._wire:
            value = fields[name]
            if value is not None:
                body[wire] = format_instant(value) if name != wire else value
        if self.payload_member is not None and self.payload_member in body:
            # Last, so that a reader can cut the data out of the text.
            payload = body.pop(self.payload_member)
            body[self.payload_member] = write_payload(payload)  # type: ignore[arg-type]  # by the field's type
        return body


class Start(WireModel):
    """Begin the saga of a business key; the newest active definition where no version is named."""

    kind = Kind.START
    payload_member = "payload"

    tenant: Key
    workflow: Name
    definition_version: Counter | None = None
    business_key: Key
    deadline_at_ms: Instant | None = Field(default=None, validation_alias="deadline_at")
    payload: PayloadField | None = None


class _Addressed(WireModel):
    """What says which attempt at which effect of which saga is meant."""

    saga_id: Id
    tenant: Key
    workflow: Name
    business_key: Key
    definition_version: Counter
    definition_digest: Digest
    step: Name
    activation: Activation
    phase: Phase
    target: Literal[Phase.EXECUTE, Phase.COMPENSATE] | None = None
    attempt: Counter
    effect_id: Id
    command_id: Id

    @model_validator(mode="after")
    def _target_belongs_to_resolve(self) -> Self:
        if (self.target is not None) != (self.phase is Phase.RESOLVE):
            raise MessageError(
                "forbidden_combination", "`target` stands with phase RESOLVE and only there"
            )
        return self


class Command(_Addressed):
    """An order to a participant: one attempt at one effect."""

    model_config = ConfigDict(json_schema_extra=conditions.for_command)
    kind = Kind.COMMAND
    payload_member = "payload"

    recovery_operation_id: Key | None = None
    expires_at_ms: Instant = Field(validation_alias="expires_at")
    payload: PayloadField | None = None


class Result(_Addressed):
    """A participant's answer to a command."""

    model_config = ConfigDict(json_schema_extra=conditions.for_result)
    kind = Kind.RESULT
    payload_member = "output"

    event_id: Id
    status: ResultStatus
    terminal_status: TerminalStatus | None = None
    reason_code: ReasonCode | None = None
    reason_detail: ReasonDetail | None = None
    output: PayloadField | None = None
    occurred_at_ms: Instant = Field(validation_alias="occurred_at")

    @model_validator(mode="after")
    def _status_answers_the_phase(self) -> Self:
        if self.status not in ALLOWED_RESULTS[self.phase]:
            raise MessageError(
                "forbidden_combination", f"{self.status} is no answer to {self.phase}"
            )
        if (self.terminal_status is not None) != (self.status is ResultStatus.ALREADY_TERMINAL):
            raise MessageError(
                "forbidden_combination",
                "`terminal_status` stands with status ALREADY_TERMINAL and only there",
            )
        return self


class WakeupRequest(WireModel):
    """Arm this generation at `at`, or disarm with null; the timer keeps the highest generation."""

    kind = Kind.WAKEUP_REQUEST

    saga_id: Id
    generation: Generation
    at_ms: Instant | None = Field(validation_alias="at")

    def to_wire(self) -> dict[str, object]:
        """Return the body; null is written, since leaving `at` out must not disarm."""
        return {"at": None, **super().to_wire()} if self.at_ms is None else super().to_wire()


class Wakeup(WireModel):
    """The armed time of this generation has come."""

    kind = Kind.WAKEUP

    saga_id: Id
    generation: Generation
    at_ms: Instant = Field(validation_alias="at")
    fired_at_ms: Instant = Field(validation_alias="fired_at")


class Lifecycle(WireModel):
    """A saga's status changed, or a start is answered."""

    model_config = ConfigDict(json_schema_extra=conditions.for_lifecycle)
    kind = Kind.LIFECYCLE
    payload_member = "output"

    saga_id: Id
    tenant: Key
    workflow: Name
    business_key: Key
    status: SagaStatus | Literal["START_REFUSED"]
    start_id: OpaqueId | None = None
    definition_version: Counter | None = None
    revision: Generation | None = None
    reason_code: ReasonCode | None = None
    output: PayloadField | None = None
    journal_head: Digest | None = None
    occurred_at_ms: Instant = Field(validation_alias="occurred_at")

    @model_validator(mode="after")
    def _refusals_and_changes_differ(self) -> Self:
        refused = self.status == START_REFUSED
        if refused and (self.start_id is None or self.reason_code is None):
            raise MessageError(
                "forbidden_combination", "START_REFUSED needs `start_id` and `reason_code`"
            )
        if refused and (self.revision, self.output, self.journal_head) != (None, None, None):
            raise MessageError(
                "forbidden_combination",
                "START_REFUSED made no saga: no `revision`, `output` or `journal_head`",
            )
        if not refused and self.revision is None and self.start_id is None:
            raise MessageError(
                "forbidden_combination", "a status needs its `revision`, or the `start_id` answered"
            )
        return self


Message: TypeAlias = Start | Command | Result | WakeupRequest | Wakeup | Lifecycle
"""The closed union of what travels."""


def _translated(cause: ValidationError) -> MessageError:
    first = cause.errors(include_url=False, include_input=False)[0]
    field = ".".join(str(part) for part in first["loc"]) or "body"
    if first["type"] == "missing":
        return MessageError("missing_field", f"the body needs `{field}`")
    return MessageError("invalid_field", f"`{field}`: {first['msg'][:200]}")
