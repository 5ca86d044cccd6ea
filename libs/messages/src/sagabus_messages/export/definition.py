"""JSON Schema 2020-12 of a definition document: what can be said without looking at the flow.

The parser of `sagabus_core.definitions` stays the judge: rules about pivots, variables, names and
conditions are its own. Whatever this schema refuses, the parser refuses too.
"""

from __future__ import annotations

from typing import Any, Final

from sagabus_core.definitions import StepKind, TimeoutPolicy, VariableType
from sagabus_core.definitions import limits as most
from sagabus_core.names import NAME_PATTERN, TEXT_KEY_MAX
from sagabus_core.payload import CONTENT_TYPE_PATTERN, SCHEMA_ID_PATTERN

__all__ = ["definition_schema"]

_Schema = dict[str, Any]

_PRINTABLE: Final = r"^[^\u0000-\u001f\u007f-\u009f]*$"
_VARIABLE: Final = f"^{most.VARIABLE.pattern}$"
_NAME: Final[_Schema] = {"type": "string", "pattern": f"^{NAME_PATTERN}$"}
_TWO_WAY: Final = ["cancellable", "unknown_allowed", "timeout_policy", "resolve"]


def definition_schema() -> _Schema:
    """Return the schema of a definition document, version 1."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:sagabus:schema:definition:v1",
        "title": "sagabus.definition.v1",
        "description": "An immutable, versioned workflow. At most "
        f"{most.MAX_DEFINITION_BYTES} bytes in canonical form (RFC 8785), "
        f"{most.MAX_STEPS} step nodes, {most.MAX_DEPTH} parallels and choices around a node. "
        "Pivots, variables and conditions have rules of their own: `sagabus definitions validate`.",
        **_object(
            ["workflow", "version", "steps", "flow"],
            workflow=_ref("name"),
            version=_integer(most.MAX_VERSION),
            tenant=_text(TEXT_KEY_MAX),
            variables=_named("variable", {"enum": list(VariableType)}, limit=most.MAX_VARIABLES),
            input=_contract(set=_named("anyVariable", _ref("pointer"))),
            output=_contract(fields=_ref("payloadFields"), content_type={"const": _JSON}),
            steps={**_named("name", _ref("step"), limit=most.MAX_STEPS), "minProperties": 1},
            flow=_object(["sequence"], sequence={**_ref("nodes"), "minItems": 1}),
        ),
        "$defs": {**_values(), **_nodes(), **_steps()},
    }


_JSON: Final = "application/json"


def _object(required: list[str], **properties: _Schema) -> _Schema:
    """Return an object of exactly these members."""
    head: _Schema = {"type": "object", "required": required} if required else {"type": "object"}
    return {**head, "properties": properties, "additionalProperties": False}


def _named(names: str, values: _Schema, limit: int | None = None) -> _Schema:
    """Return a dictionary whose keys have a form of their own."""
    bound = {} if limit is None else {"maxProperties": limit}
    named = {"propertyNames": _ref(names), "additionalProperties": values}
    return {"type": "object", **named, **bound}


def _ref(name: str) -> _Schema:
    return {"$ref": f"#/$defs/{name}"}


def _integer(limit: int) -> _Schema:
    return {"type": "integer", "minimum": 1, "maximum": limit}


def _text(limit: int = most.MAX_TEXT) -> _Schema:
    return {"type": "string", "minLength": 1, "maxLength": limit, "pattern": _PRINTABLE}


def _contract(**more: _Schema) -> _Schema:
    kind = {"type": "string", "pattern": CONTENT_TYPE_PATTERN}
    name = {"type": "string", "pattern": SCHEMA_ID_PATTERN}
    parts: dict[str, _Schema] = {"content_type": kind, "schema_id": name, **more}
    return _object(["content_type", "schema_id"], **parts)


def _values() -> _Schema:
    pointer = {"type": "string", "maxLength": most.MAX_TEXT, "pattern": "^(/([^/~]|~[01])*)*$"}
    variable = {"type": "string", "pattern": _VARIABLE, "not": {"enum": _reserved()}}
    return {
        "name": _NAME,
        "variable": variable,
        "anyVariable": {"type": "string", "pattern": _VARIABLE},
        "pointer": {**pointer, "description": "RFC 6901"},
        "fieldName": _text(),
        "payloadFields": _named("fieldName", _ref("anyVariable")),
        "duration": {**_integer(most.MAX_DURATION_MS), "description": "milliseconds"},
    }


def _reserved() -> list[str]:
    return sorted(most.RESERVED_WORDS)


def _nodes() -> _Schema:
    branch = {"name": _ref("name"), "flow": _ref("body")}
    when = {"type": "string", "minLength": 1, "maxLength": most.MAX_EXPRESSION_LENGTH}
    branches = {**_named("name", _ref("body")), "minProperties": 2}
    listed = {"type": "array", "minItems": 1, "items": _ref("branch")}
    return {
        "node": {"oneOf": [_ref("stepNode"), _ref("parallelNode"), _ref("choiceNode")]},
        "nodes": {"type": "array", "items": _ref("node")},
        "body": {"anyOf": [_ref("node"), _object(["sequence"], sequence=_ref("nodes"))]},
        "branch": _object(["name", "when", "flow"], when=when, **branch),
        "stepNode": _object(
            ["step"],
            step=_ref("name"),
            name=_ref("name"),
            input=_ref("payloadFields"),
            output=_named("anyVariable", _ref("pointer")),
        ),
        "parallelNode": _object(
            ["parallel"],
            parallel=_object(["name", "branches"], name=_ref("name"), branches=branches),
        ),
        "choiceNode": _object(
            ["choice"],
            choice=_object(
                ["name", "branches", "otherwise"],
                name=_ref("name"),
                branches=listed,
                otherwise=_object(["flow"], **branch),
            ),
        ),
    }


def _steps() -> _Schema:
    duration, attempts = _ref("duration"), _integer(most.MAX_ATTEMPTS)
    factor = {"type": "number", "minimum": 1, "maximum": most.MAX_BACKOFF_FACTOR}
    limits = {"timeout_ms": duration, "attempts": attempts, "backoff": _ref("backoff")}
    step = _object(
        ["participant", "kind", "execute"],
        participant=_ref("name"),
        kind={"enum": list(StepKind)},
        cancellable={"type": "boolean"},
        unknown_allowed={"type": "boolean"},
        timeout_policy={"enum": list(TimeoutPolicy)},
        payload=_contract(invalid_payload={"enum": ["halt", "reject"]}),
        output=_contract(),
        execute=_ref("timing"),
        cancel=_ref("timing"),
        compensate=_ref("timing"),
        compensation={"const": "none"},
        resolve=_object(["timeout_ms", "budget_ms"], budget_ms=duration, **limits),
    )
    return {
        "backoff": _object([], initial_ms=duration, factor=factor, max_ms=duration),
        "timing": _object(["timeout_ms"], **limits),
        "step": {**step, "allOf": [_by_kind(kind) for kind in StepKind] + _by_cancellable()},
    }


def _by_kind(kind: StepKind) -> _Schema:
    once: _Schema = {"properties": {"attempts": {"const": 1}, "backoff": False}}
    accepts = {"const": TimeoutPolicy.ACCEPT_LATE_SUCCESS}
    no_undo: _Schema = {"compensate": False, "compensation": False}
    then: _Schema
    match kind:
        case StepKind.RETRIABLE:
            halts = {"properties": {"invalid_payload": {"const": "halt"}}}
            never = {"cancel": False, "resolve": False, "cancellable": {"const": False}}
            parts = {**never, **no_undo, "timeout_policy": accepts, "payload": halts}
            then = {"properties": parts}
        case StepKind.PIVOT:
            parts = {**no_undo, "timeout_policy": accepts, "execute": once}
            then = {"required": _TWO_WAY, "properties": parts}
        case StepKind.COMPENSATABLE:
            either = [{"required": ["compensate"]}, {"required": ["compensation"]}]
            then = {"required": _TWO_WAY, "properties": {"execute": once}, "oneOf": either}
    return {"if": _is(kind={"const": kind}), "then": then}


def _by_cancellable() -> list[_Schema]:
    yes, no = _is(cancellable={"const": True}), _is(cancellable={"const": False})
    return [
        {"if": yes, "then": {"required": ["cancel"]}},
        {"if": no, "then": {"properties": {"cancel": False}}},
    ]


def _is(**properties: _Schema) -> _Schema:
    return {"required": list(properties), "properties": properties}
