"""Payloads and order files that people hand to the command."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sagabus_cli.errors import UsageError
from sagabus_core.errors import SagabusError
from sagabus_core.payload import Payload
from sagabus_messages import json_payload, parse_strict

__all__ = ["Line", "read_lines", "read_payload"]


@dataclass(frozen=True, slots=True)
class Line:
    """One saga to start."""

    key: str
    payload: Payload | None


def read_payload(path: Path, schema_id: str) -> Payload:
    """Return the JSON of a file as a payload. Raises `UsageError` with the code of the fault."""
    raw = _read(path)
    try:
        return json_payload(parse_strict(raw), schema_id)
    except SagabusError as error:
        raise UsageError(error.code, f"{path}: {error.detail}") from error


def read_lines(path: Path, schema_id: str) -> list[Line]:
    """Return the sagas of a file of JSON lines; blank lines are passed over."""
    lines: list[Line] = []
    for number, raw in enumerate(_read(path).splitlines(), 1):
        if raw.strip():
            lines.append(_line(raw, f"{path}:{number}", schema_id))
    if not lines:
        raise UsageError("empty_file", f"{path} has no line: write one object per saga")
    return lines


def _line(raw: bytes, where: str, schema_id: str) -> Line:
    try:
        value = parse_strict(raw)
        if not isinstance(value, dict) or not isinstance(value.get("key"), str):
            raise UsageError("invalid_line", 'write {"key": "ORD-1", "payload": {...}}')
        payload = value.get("payload")
        return Line(
            str(value["key"]), json_payload(payload, schema_id) if payload is not None else None
        )
    except SagabusError as error:
        raise UsageError(error.code, f"{where}: {error.detail}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
