"""The documents of the HTTP API that the client writes and reads."""

from __future__ import annotations

from typing import Any

from sagabus_client.values import Outcome, SagaHandle, StartCommand
from sagabus_core.vocabulary import SagaStatus
from sagabus_messages import format_instant
from sagabus_messages.instants import parse_instant
from sagabus_messages.payloads import read_payload, write_payload
from sagabus_messages.strict_json import dump

__all__ = ["outcome_of", "start_body"]


def start_body(command: StartCommand) -> bytes:
    """Return the body of `POST /v1/sagas`."""
    members: dict[str, object] = {
        "tenant": command.tenant,
        "workflow": command.workflow,
        "business_key": command.business_key,
    }
    if command.version is not None:
        members["definition_version"] = command.version
    if command.deadline_at_ms is not None:
        members["deadline_at"] = format_instant(command.deadline_at_ms)
    if command.payload is not None:
        members["payload"] = write_payload(command.payload)
    return dump(members)


def outcome_of(handle: SagaHandle, body: dict[str, Any]) -> Outcome:
    """Return what a saga document says of its outcome."""
    output = body["output"]
    return Outcome(
        handle=handle,
        status=SagaStatus(body["status"]),
        occurred_at_ms=parse_instant(body["updated_at"]),
        reason_code=body["reason_code"],
        output=read_payload(output, None) if output is not None else None,
        revision=body["revision"],
    )
