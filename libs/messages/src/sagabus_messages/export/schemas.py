"""JSON Schemas 2020-12 of the six messages, from their models."""

from __future__ import annotations

from typing import Any

from sagabus_messages.models import (
    Command,
    Kind,
    Lifecycle,
    Result,
    Start,
    Wakeup,
    WakeupRequest,
    WireModel,
)

__all__ = ["MODELS", "message_schemas", "schema_id"]

MODELS: tuple[type[WireModel], ...] = (Start, Command, Result, WakeupRequest, Wakeup, Lifecycle)


def schema_id(kind: Kind) -> str:
    """Return the $id of a schema, which is the ce_dataschema of its records."""
    return f"urn:sagabus:schema:{kind}:v1"


def message_schemas() -> dict[Kind, dict[str, Any]]:
    """Return the schema of each message by its kind."""
    return {model.kind: _schema(model) for model in MODELS}


def _schema(model: type[WireModel]) -> dict[str, Any]:
    drawn = model.model_json_schema(by_alias=True, mode="validation")
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": schema_id(model.kind),
        "title": f"sagabus.{model.kind}.v1",
        "description": (model.__doc__ or "").strip(),
    }
    order = ("type", "required", "properties", "allOf", "$defs")
    return head | {name: _plain(drawn[name]) for name in order if name in drawn}


def _plain(node: Any) -> Any:  # noqa: ANN401  # a walk over whatever JSON holds
    """Drop what pydantic derives from Python names: they are no part of the contract."""
    if isinstance(node, list):
        return [_plain(item) for item in node]
    if not isinstance(node, dict):
        return node
    derived = isinstance(node.get("title"), str)
    return {
        name: {key: _plain(value) for key, value in child.items()}
        if name == "properties"
        else _plain(child)
        for name, child in node.items()
        if not (name == "title" and derived) and not (name == "default" and child is None)
    }
