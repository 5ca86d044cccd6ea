"""Between payload bytes and typed variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from sagabus_core.canonical import MAX_SAFE_INTEGER, JsonValue
from sagabus_core.definitions.model import Pointer, VariableType
from sagabus_core.errors import InvalidValue
from sagabus_core.names import MAX_BODY_BYTES
from sagabus_core.payload import MAX_PAYLOAD_DEPTH, Payload, PayloadContract

__all__ = ["MAX_PAYLOAD_BYTES", "build_payload", "check_payload", "fits", "read_variables"]

MAX_PAYLOAD_BYTES: Final = MAX_BODY_BYTES - 16 * 1024
"""Largest payload of a command: the body limit less the other fields of the envelope."""

_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


def _mismatch(detail: str) -> InvalidValue:
    return InvalidValue("payload_contract_mismatch", detail)


def fits(kind: VariableType, value: object) -> bool:
    """Whether a JSON value belongs to a variable of this type; a boolean is no number."""
    match kind:
        case VariableType.JSON:
            return True
        case VariableType.STRING:
            return isinstance(value, str)
        case VariableType.BOOLEAN:
            return isinstance(value, bool)
        case VariableType.INTEGER:
            whole = isinstance(value, int) and not isinstance(value, bool)
            return whole and abs(value) <= MAX_SAFE_INTEGER  # type: ignore[arg-type]  # whole says so
        case VariableType.NUMBER:
            return isinstance(value, (int, float)) and not isinstance(value, bool)


def _find(document: JsonValue, pointer: Pointer) -> JsonValue:
    for token in pointer:
        if isinstance(document, dict) and token in document:
            document = document[token]
        elif isinstance(document, list) and token.isdecimal() and int(token) < len(document):
            document = document[int(token)]
        else:
            raise _mismatch(f"nothing at /{'/'.join(pointer)}")
    return document


def read_variables(
    mapping: Sequence[tuple[str, Pointer]],
    contract: PayloadContract | None,
    payload: Payload | None,
    types: Mapping[str, VariableType],
) -> dict[str, JsonValue]:
    """Return the variables that a payload sets, or raise `payload_contract_mismatch`.

    Everything must be there and of its declared type; nothing is converted.
    """
    if payload is None or payload.contract != contract:
        raise _mismatch(f"expected {contract}, got {payload.contract if payload else None}")
    if not mapping:
        return {}  # nothing is read, and what is not JSON has nothing to read
    try:
        document = json.loads(payload.body)
    except ValueError as cause:
        raise _mismatch("the body is not JSON") from cause
    values = {variable: _find(document, pointer) for variable, pointer in mapping}
    for variable, value in values.items():
        if not fits(types[variable], value):
            raise _mismatch(f"variable {variable!r} is declared {types[variable]}")
    return values


def build_payload(
    mapping: Sequence[tuple[str, str]],
    contract: PayloadContract,
    variables: Mapping[str, JsonValue],
) -> Payload:
    """Return the payload that variables make, or raise `payload_contract_mismatch`."""
    missing = [variable for _, variable in mapping if variable not in variables]
    if missing:
        raise _mismatch(f"variables {missing} are not set")
    document = {name: variables[variable] for name, variable in mapping}
    text = _encode(document)
    if text.count("{") + text.count("[") > MAX_PAYLOAD_DEPTH < _depth(document):
        raise _mismatch(f"the payload nests more than {MAX_PAYLOAD_DEPTH} deep")
    payload = Payload(contract.content_type, contract.schema_id, text.encode("utf-8"))
    check_payload(payload, contract)
    return payload


def _depth(value: JsonValue) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def check_payload(payload: Payload, contract: PayloadContract | None) -> None:
    """Raise `payload_contract_mismatch` unless a payload fits its contract and the limit."""
    if payload.contract != contract:
        raise _mismatch(f"expected {contract}, got {payload.contract}")
    if len(payload.body) > MAX_PAYLOAD_BYTES:
        raise _mismatch(f"the payload has more than {MAX_PAYLOAD_BYTES} bytes")
