"""Whole records as golden vectors: one story, from its start to its lifecycle event."""

from __future__ import annotations

import base64
from typing import Any

from sagabus_core import ids
from sagabus_core.canonical import sha256_hex
from sagabus_core.payload import JSON_CONTENT_TYPE, Payload
from sagabus_core.vocabulary import Phase, ResultStatus, SagaStatus, TerminalStatus
from sagabus_messages.codec import Stamp, encode, source_of
from sagabus_messages.models import (
    START_REFUSED,
    Command,
    Lifecycle,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
)
from sagabus_messages.record import OutboxRow
from sagabus_messages.topics import Topics

__all__ = ["message_vectors"]

_AT = 1_767_225_600_000
_SAGA = ids.saga_id("acme", "order", "o-1")
_TOPICS = Topics("dev.")
_ORCHESTRATOR = Stamp(
    source_of("orchestrator"), _AT, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a=1"
)
_PAYMENTS = Stamp(source_of("payments"), _AT + 250)
_JSON = Payload(JSON_CONTENT_TYPE, "urn:acme:pay:v1", b'{"amount": 12.50, "note":"caf\\u00e9"}')
_RAW = Payload("application/avro", "urn:acme:receipt:v1", b"\x00\x01\xfe\xff")


def message_vectors() -> list[dict[str, Any]]:
    """Return the records of the story with their exact headers and bodies."""
    command, resolve = _command(Phase.EXECUTE, None), _command(Phase.RESOLVE, Phase.COMPENSATE)
    start = Start(tenant="acme", workflow="order", business_key="o-1", payload=_JSON)
    rows = {
        "start": encode(start, _TOPICS.start, Stamp(source_of("shop"), _AT), ce_id="s-1"),
        "command": encode(command, _TOPICS.command("payments"), _ORCHESTRATOR),
        "command, edited and redriven": encode(
            command, _TOPICS.command("payments"), _ORCHESTRATOR, redrive="op-7"
        ),
        "command that asks about an undo": encode(
            resolve, _TOPICS.command("payments"), _ORCHESTRATOR
        ),
        "result with raw bytes": encode(
            _result(command, ResultStatus.SUCCEEDED, output=_RAW),
            _TOPICS.result("payments"),
            _PAYMENTS,
        ),
        "result of a cancel that came too late": encode(
            _result(
                _command(Phase.CANCEL, None),
                ResultStatus.ALREADY_TERMINAL,
                terminal_status=TerminalStatus.SUCCEEDED,
            ),
            _TOPICS.result("payments"),
            _PAYMENTS,
        ),
        **_quiet_rows(),
    }
    return [_vector(name, row) for name, row in rows.items()]


def _quiet_rows() -> dict[str, OutboxRow]:
    timer = Stamp(source_of("timer"), _AT + 60_001)
    armed = WakeupRequest(saga_id=_SAGA, generation=1, at_ms=_AT + 60_000)
    disarmed = WakeupRequest(saga_id=_SAGA, generation=2, at_ms=None)
    fired = Wakeup(saga_id=_SAGA, generation=1, at_ms=_AT + 60_000, fired_at_ms=_AT + 60_001)
    done = _lifecycle(status=SagaStatus.COMPLETED, definition_version=1, revision=4, output=_JSON)
    refused = _lifecycle(status=START_REFUSED, start_id="s-2", reason_code="request_conflict")
    return {
        "wake-up request": encode(armed, _TOPICS.wakeup_request, _ORCHESTRATOR),
        "wake-up request that disarms": encode(disarmed, _TOPICS.wakeup_request, _ORCHESTRATOR),
        "wake-up": encode(fired, _TOPICS.wakeup, timer),
        "lifecycle": encode(done, _TOPICS.lifecycle, _ORCHESTRATOR),
        "lifecycle that refuses a start": encode(
            refused, _TOPICS.lifecycle, _ORCHESTRATOR, start_source=source_of("shop")
        ),
    }


def _command(phase: Phase, target: Phase | None) -> Command:
    effect = ids.effect_id(_SAGA, 1, "book.pay", phase, target)
    return Command.model_validate(
        {
            "saga_id": _SAGA,
            "tenant": "acme",
            "workflow": "order",
            "business_key": "o-1",
            "definition_version": 1,
            "definition_digest": sha256_hex(b"{}"),
            "step": "charge-card",
            "activation": "book.pay",
            "phase": phase,
            "target": target,
            "attempt": 1,
            "effect_id": effect,
            "command_id": ids.command_id(effect, 1),
            "expires_at_ms": _AT + 30_000,
            "payload": _JSON,
        }
    )


def _result(command: Command, status: ResultStatus, **more: object) -> Result:
    return Result.model_validate(
        {
            **dict(command),
            "event_id": ids.result_event_id(command.command_id, 1),
            "status": status,
            "occurred_at_ms": _AT + 250,
            **more,
        }
    )


def _lifecycle(**more: object) -> Lifecycle:
    return Lifecycle.model_validate(
        {
            "saga_id": _SAGA,
            "tenant": "acme",
            "workflow": "order",
            "business_key": "o-1",
            "occurred_at_ms": _AT,
            **more,
        }
    )


def _vector(name: str, row: OutboxRow) -> dict[str, Any]:
    value = row.value or b""
    return {
        "name": name,
        "topic": row.topic,
        "key": (row.key or b"").decode(),
        "headers": [[header, text.decode()] for header, text in row.headers],
        "body_text": value.decode(),
        "body_base64": base64.b64encode(value).decode(),
        "body_sha256": sha256_hex(value),
    }
