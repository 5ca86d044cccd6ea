"""The AsyncAPI 3.0 document, assembled by hand so that it changes only with the contract."""

from __future__ import annotations

from typing import Any

from sagabus_messages.codec import REDRIVE_HEADER, START_SOURCE_HEADER
from sagabus_messages.export.schemas import MODELS, schema_id
from sagabus_messages.export.topics import topic_rows
from sagabus_messages.instants import INSTANT_PATTERN
from sagabus_messages.models import Kind
from sagabus_messages.topics import TopicSpec

__all__ = ["asyncapi_document"]

_UUID = "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$"
_SENDERS = {
    Kind.START: "Client or trigger",
    Kind.COMMAND: "Orchestrator",
    Kind.RESULT: "Participant",
    Kind.WAKEUP_REQUEST: "Orchestrator",
    Kind.WAKEUP: "Timer",
    Kind.LIFECYCLE: "Orchestrator",
}
_RECEIVERS = {
    Kind.START: "Orchestrator",
    Kind.COMMAND: "Participant",
    Kind.RESULT: "Orchestrator",
    Kind.WAKEUP_REQUEST: "Timer",
    Kind.WAKEUP: "Orchestrator",
    Kind.LIFECYCLE: "Any subscriber",
}


def asyncapi_document() -> dict[str, Any]:
    """Return the whole document."""
    sources = [(address, spec) for address, spec in topic_rows() if not spec.is_dead_letter]
    channels = {_name(spec.kind): _channel(address, spec) for address, spec in sources}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "sagabus",
            "version": "1.0.0",
            "description": "Durable sagas over Kafka. Every address stands after the prefix of its "
            "environment. Records are CloudEvents 1.0 in binary mode. A record that breaks this "
            "contract goes to `<address>.dlt` with its reason (errors.md).",
        },
        "defaultContentType": "application/json",
        "servers": {"kafka": {"host": "kafka.example.com:9092", "protocol": "kafka"}},
        "channels": channels,
        "operations": _operations(),
        "components": {"messages": {_name(model.kind): _message(model.kind) for model in MODELS}},
    }


def _name(kind: Kind) -> str:
    head, *rest = kind.split(".")
    return head + "".join(part.title() for part in rest)


def _channel(address: str, spec: TopicSpec) -> dict[str, Any]:
    name = _name(spec.kind)
    channel: dict[str, Any] = {
        "address": address,
        "title": f"{name} records",
        "messages": {name: {"$ref": f"#/components/messages/{name}"}},
    }
    if spec.participant is not None:
        channel["parameters"] = {
            "participant": {"description": "The registered name of the participant"}
        }
    settings = {
        "cleanup.policy": [spec.cleanup_policy],
        "retention.ms": spec.retention_ms,
        "max.message.bytes": spec.max_message_bytes,
    }
    channel["bindings"] = {
        "kafka": {"partitions": spec.partitions, "topicConfiguration": settings},
    }
    return channel


def _operations() -> dict[str, Any]:
    operations: dict[str, Any] = {}
    for action, parties in (("send", _SENDERS), ("receive", _RECEIVERS)):
        for kind, party in parties.items():
            name = _name(kind)
            verb = "sends" if action == "send" else "receives"
            operations[f"{action}{name[0].upper()}{name[1:]}"] = {
                "action": action,
                "title": f"{party} {verb} {name}",
                "channel": {"$ref": f"#/channels/{name}"},
                "messages": [{"$ref": f"#/channels/{name}/messages/{name}"}],
            }
    return operations


def _message(kind: Kind) -> dict[str, Any]:
    schema_format = "application/schema+json;version=draft-2020-12"
    return {
        "name": f"sagabus.{kind}.v1",
        "title": f"{_name(kind)}, version 1",
        "contentType": "application/json",
        "headers": _headers(kind),
        "payload": {
            "schemaFormat": schema_format,
            "schema": {"$ref": f"./schemas/{kind}.v1.json"},
        },
        "bindings": {"kafka": {"key": {"type": "string", "pattern": _UUID}}},
    }


def _headers(kind: Kind) -> dict[str, Any]:
    properties: dict[str, Any] = {
        "ce_specversion": {"const": "1.0"},
        "ce_id": {"type": "string", "minLength": 1, "maxLength": 128},
        "ce_source": {"type": "string", "pattern": "^urn:sagabus:[a-z0-9][a-z0-9-]{0,62}$"},
        "ce_type": {"const": f"sagabus.{kind}.v1"},
        "ce_subject": {"type": "string", "pattern": _UUID},
        "ce_time": {"type": "string", "pattern": INSTANT_PATTERN},
        "ce_dataschema": {"const": schema_id(kind)},
        "content-type": {"const": "application/json"},
        "traceparent": {"type": "string"},
        "tracestate": {"type": "string"},
    }
    if kind in {Kind.START, Kind.COMMAND}:
        properties[REDRIVE_HEADER] = {
            "type": "string",
            "description": "Operation that edited and redrove the record; of a command the ce_id "
            "is then UUIDv5 over JCS(['redrive', command_id, operation])",
        }
    if kind is Kind.LIFECYCLE:
        properties[START_SOURCE_HEADER] = {
            "type": "string",
            "description": "The ce_source of the start that this event answers",
        }
    required = ["ce_specversion", "ce_id", "ce_source", "ce_type", "ce_subject", "ce_time"]
    return {
        "type": "object",
        "required": [*required, "content-type"],
        "properties": properties,
    }
