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
    workflow: str
    payload: Payload | None


def read_payload(path: Path, schema_id: str) -> Payload:
    """Return the JSON of a file as a payload. Raises `UsageError` with the code of the fault."""
    raw = _read(path)
    try:
        return json_payload(parse_strict(raw), schema_id)
    except SagabusError as error:
        raise UsageError(error.code, f"{path}: {error.detail}") from error


def read_lines(path: Path, workflow: str | None, schema_id: str | None) -> list[Line]:
    """Return the sagas of a file of JSON lines; blank lines are passed over.

    `workflow` is for lines that name none, `schema_id` for all; else it is `<workflow>.v1`.
    """
    lines: list[Line] = []
    for number, raw in enumerate(_read(path).splitlines(), 1):
        if raw.strip():
            lines.append(_line(raw, f"{path}:{number}", workflow, schema_id))
    if not lines:
        raise UsageError("empty_file", f"{path} has no line: write one object per saga")
    return lines


def _line(raw: bytes, where: str, workflow: str | None, schema_id: str | None) -> Line:
    try:
        value = parse_strict(raw)
        if not isinstance(value, dict) or not isinstance(value.get("key"), str):
            raise UsageError("invalid_line", 'write {"key": "ORD-1", "payload": {...}}')
        name = value.get("workflow", workflow)
        if not isinstance(name, str):
            raise UsageError("invalid_line", 'name the workflow: "workflow" here, or --workflow')
        content = value.get("payload")
        payload = None if content is None else json_payload(content, schema_id or f"{name}.v1")
        return Line(str(value["key"]), name, payload)
    except SagabusError as error:
        raise UsageError(error.code, f"{where}: {error.detail}") from error


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as cause:
        raise UsageError("unreadable_file", f"cannot read {path}: {cause.strerror}") from cause
