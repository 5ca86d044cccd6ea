"""The AsyncAPI 3.0 document of one participant: its two topics, and the payloads of its steps.

The same code gives the same bytes, so that a test can hold a committed file equal to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from pydantic import BaseModel

from sagabus_core.payload import JSON_CONTENT_TYPE
from sagabus_messages import Topics
from sagabus_messages.export.asyncapi import asyncapi_document
from sagabus_messages.export.schemas import message_schemas
from sagabus_messages.models import Kind

if TYPE_CHECKING:
    from sagabus_participant.registry import Participant, RegisteredStep

__all__ = ["asyncapi_of"]

_Json = dict[str, Any]
_FORMAT: Final = "application/schema+json;version=draft-2020-12"
_OPERATIONS: Final = {"receiveCommand": Kind.COMMAND, "sendResult": Kind.RESULT}


def asyncapi_of(participant: Participant) -> _Json:
    """Return the document; addresses stand after the prefix of an environment."""
    whole, topics, name = asyncapi_document(), Topics(), participant.name
    addresses = {Kind.COMMAND: topics.command(name), Kind.RESULT: topics.result(name)}
    return {
        "asyncapi": whole["asyncapi"],
        "info": {
            "title": f"sagabus participant {name}",
            "version": "1.0.0",
            "description": "Commands that it handles and results that it answers, step by step.",
        },
        "defaultContentType": whole["defaultContentType"],
        "servers": whole["servers"],
        "channels": {
            kind.value: _channel(whole, kind, address, participant)
            for kind, address in addresses.items()
        },
        "operations": {
            operation: _operation(whole["operations"][operation], kind, participant)
            for operation, kind in _OPERATIONS.items()
        },
        "components": {
            "messages": {
                _message_name(step, kind): _message(whole, step, kind)
                for step in participant.steps
                for kind in addresses
            },
            "schemas": dict(_schemas(participant)),
        },
    }


def _message_name(step: RegisteredStep, kind: Kind) -> str:
    return f"{step.name}.{kind.value}"


def _channel(whole: _Json, kind: Kind, address: str, participant: Participant) -> _Json:
    channel = whole["channels"][kind.value]
    return {
        "address": address,
        "title": f"{kind.value}s of {participant.name}",
        "messages": {
            step.name: {"$ref": f"#/components/messages/{_message_name(step, kind)}"}
            for step in participant.steps
        },
        "bindings": channel["bindings"],
    }


def _operation(operation: _Json, kind: Kind, participant: Participant) -> _Json:
    return {
        "action": operation["action"],
        "title": f"{participant.name} {operation['action']}s {kind.value}s",
        "channel": {"$ref": f"#/channels/{kind.value}"},
        "messages": [
            {"$ref": f"#/channels/{kind.value}/messages/{step.name}"} for step in participant.steps
        ],
    }


def _message(whole: _Json, step: RegisteredStep, kind: Kind) -> _Json:
    general = whole["components"]["messages"][kind.value]
    member, schema_id, part, model = (
        ("payload", step.input_schema, "input", step.input)
        if kind is Kind.COMMAND
        else ("output", step.output_schema, "output", step.options.output)
    )
    payload: _Json = {
        "content_type": {"const": JSON_CONTENT_TYPE},
        "schema_id": {"const": schema_id},
    }
    if model is not None:
        payload["data"] = {"$ref": f"#/components/schemas/{step.name}.{part}"}
    narrowed = {"step": {"const": step.name}, member: {"properties": payload}}
    schema = {"allOf": [{"$ref": f"#/components/schemas/{kind.value}"}, {"properties": narrowed}]}
    return {
        "name": general["name"],
        "title": f"{kind.value} of {step.name}",
        "contentType": general["contentType"],
        "headers": general["headers"],
        "payload": {"schemaFormat": _FORMAT, "schema": schema},
        "bindings": general["bindings"],
    }


def _schemas(participant: Participant) -> Iterable[tuple[str, _Json]]:
    general = message_schemas()
    for kind in (Kind.COMMAND, Kind.RESULT):
        yield kind.value, general[kind]
    for step in participant.steps:
        yield f"{step.name}.input", _payload_schema(step.input, step.input_schema)
        if step.options.output is not None:
            output = _payload_schema(step.options.output, step.output_schema)
            yield f"{step.name}.output", output


def _payload_schema(model: type[BaseModel], schema_id: str) -> _Json:
    # An id of its own: the references inside of a schema begin at it.
    return {"$id": f"urn:sagabus:payload:{schema_id}", **model.model_json_schema()}
