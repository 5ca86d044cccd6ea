"""Cross-field rules as JSON Schema conditions, beside the validators that enforce them."""

from __future__ import annotations

from typing import Any

from sagabus_core.vocabulary import ALLOWED_RESULTS, Phase, ResultStatus

__all__ = ["for_command", "for_lifecycle", "for_result"]

_Schema = dict[str, Any]


def for_command(schema: _Schema) -> None:
    """Add: `target` with phase RESOLVE and only there."""
    schema["allOf"] = [_exactly_when("phase", Phase.RESOLVE, "target")]


def for_result(schema: _Schema) -> None:
    """Add: the rules of a command; the statuses of each phase; terminal_status with its status."""
    answers = [
        _when(
            {"phase": {"const": phase.value}},
            {"properties": {"status": {"enum": sorted(status.value for status in allowed)}}},
        )
        for phase, allowed in ALLOWED_RESULTS.items()
    ]
    schema["allOf"] = [
        _exactly_when("phase", Phase.RESOLVE, "target"),
        *answers,
        _exactly_when("status", ResultStatus.ALREADY_TERMINAL, "terminal_status"),
    ]


def for_lifecycle(schema: _Schema) -> None:
    """Add: a refusal names start and reason and has no saga; a status its revision or start."""
    refusal = {
        "required": ["start_id", "reason_code"],
        "properties": {
            **{name: {"not": {"type": "null"}} for name in ("start_id", "reason_code")},
            **{name: {"type": "null"} for name in ("revision", "output", "journal_head")},
        },
    }
    change = {"anyOf": [_given("revision"), _given("start_id")]}
    schema["allOf"] = [{**_when({"status": {"const": "START_REFUSED"}}, refusal), "else": change}]


def _when(test: _Schema, then: _Schema) -> _Schema:
    return {"if": {"properties": test, "required": sorted(test)}, "then": then}


def _exactly_when(name: str, value: str, other: str) -> _Schema:
    rule = _when({name: {"const": str(value)}}, _given(other))
    return {**rule, "else": {"properties": {other: {"type": "null"}}}}


def _given(name: str) -> _Schema:
    return {"required": [name], "properties": {name: {"not": {"type": "null"}}}}
