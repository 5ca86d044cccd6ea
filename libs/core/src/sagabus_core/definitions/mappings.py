"""Maps between JSON documents and variables, as definitions write them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sagabus_core.definitions.fields import Fields
from sagabus_core.definitions.limits import (
    MAX_TEXT,
    MAX_VARIABLES,
    RESERVED_WORDS,
    VARIABLE,
)
from sagabus_core.definitions.model import Pointer, VariableType
from sagabus_core.definitions.problems import Problems

__all__ = ["read_input", "read_pointers", "read_variables"]

_POINTER = re.compile(r"(/([^/~]|~[01])*)*")


def read_variables(fields: Fields | None) -> dict[str, VariableType]:
    """Return the declared variables."""
    if fields is None:
        return {}
    entries = list(fields.items())
    if len(entries) > MAX_VARIABLES:
        fields.problems.add(
            fields.path, "too_many_variables", f"declare at most {MAX_VARIABLES} variables"
        )
    variables: dict[str, VariableType] = {}
    for name, path, _ in entries[:MAX_VARIABLES]:
        kind = fields.word(name, VariableType)
        if VARIABLE.fullmatch(name) is None or name in RESERVED_WORDS:
            fields.problems.add(
                path,
                "invalid_variable",
                f"a variable matches {VARIABLE.pattern} and is no reserved word of conditions",
            )
        elif kind is not None:
            variables[name] = kind
    return variables


def read_input(
    fields: Fields, name: str, variables: Mapping[str, VariableType]
) -> tuple[tuple[str, str], ...] | None:
    """Return which payload field is fed by which variable; None without a mapping."""
    part = fields.child(name, required=False)
    if part is None:
        return None
    pairs: list[tuple[str, str]] = []
    for key, path, _ in part.items():
        variable = part.variable(key)
        if not 1 <= len(key) <= MAX_TEXT or not key.isprintable():
            part.problems.add(path, "text_expected", f"a field has 1 to {MAX_TEXT} characters")
        if variable is not None and _declared(part.problems, path, variable, variables):
            pairs.append((key, variable))
    return tuple(pairs)


def read_pointers(
    fields: Fields, name: str, variables: Mapping[str, VariableType]
) -> tuple[tuple[str, Pointer], ...]:
    """Return which variable is read from where; empty without a mapping."""
    part = fields.child(name, required=False)
    if part is None:
        return ()
    pairs: list[tuple[str, Pointer]] = []
    for variable, path, value in part.items():
        known = _declared(part.problems, path, variable, variables)
        if not isinstance(value, str) or len(value) > MAX_TEXT or not _POINTER.fullmatch(value):
            part.problems.add(path, "invalid_pointer", "write an RFC 6901 JSON pointer")
        elif known:
            pairs.append((variable, _tokens(value)))
    return tuple(pairs)


def _tokens(text: str) -> Pointer:
    return tuple(t.replace("~1", "/").replace("~0", "~") for t in text.split("/")[1:])


def _declared(
    problems: Problems, path: str, variable: str, variables: Mapping[str, VariableType]
) -> bool:
    if variable in variables:
        return True
    problems.add(path, "unknown_variable", f"declare {variable!r} under /variables")
    return False
