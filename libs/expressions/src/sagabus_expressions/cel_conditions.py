"""The port `Conditions` on Google's CEL (https://cel.dev): type-checked, pure, terminating."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

from cel_expr_python import cel

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import VariableType
from sagabus_core.errors import ConditionError

__all__ = ["MAX_EXPRESSION_CHARS", "CelConditions"]

MAX_EXPRESSION_CHARS: Final = 1_024
"""Longest condition; also what bounds the nesting of comprehensions over json variables."""

_TYPES: Final[Mapping[VariableType, cel.Type]] = {
    VariableType.STRING: cel.Type.STRING,
    VariableType.INTEGER: cel.Type.INT,
    VariableType.NUMBER: cel.Type.DOUBLE,
    VariableType.BOOLEAN: cel.Type.BOOL,
    VariableType.JSON: cel.Type.DYN,
}


class CelConditions:
    """Checks and evaluates conditions; safe to share between threads and sagas."""

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        """Return one sentence per problem; empty for a valid condition of type bool."""
        if len(expression) > MAX_EXPRESSION_CHARS:
            return (f"a condition may have {MAX_EXPRESSION_CHARS} characters",)
        try:
            compiled = _compile(expression, _signature(variables))
        except RuntimeError as error:
            return _sentences(error)
        if compiled.return_type() != cel.Type.BOOL:
            return (f"a condition must be a bool, this is {compiled.return_type().name()}",)
        return ()

    def evaluate(
        self,
        expression: str,
        variables: Mapping[str, JsonValue],
        types: Mapping[str, VariableType],
    ) -> bool:
        """Return the value of a checked condition, or raise `ConditionError`.

        A variable that the expression reads and that is not set is an error, like a missing
        member of a json variable or an overflow.
        """
        data = {name: _typed(value, types[name]) for name, value in variables.items()}
        try:
            result = _compile(expression, _signature(types)).eval(data=data)
        except (RuntimeError, TypeError, ValueError) as error:
            raise ConditionError("condition_error", _sentences(error)[0]) from error
        value = result.value()
        if not isinstance(value, bool):
            raise ConditionError("condition_error", f"the condition gave {result}, not a bool")
        return value


def _typed(value: JsonValue, declared: VariableType) -> JsonValue:
    # JSON writes the number 2.0 as 2: without this, `price + 1.0` would depend on the sender.
    whole = isinstance(value, int) and not isinstance(value, bool)
    return float(value) if whole and declared is VariableType.NUMBER else value  # type: ignore[arg-type]  # an int


def _signature(variables: Mapping[str, VariableType]) -> tuple[tuple[str, VariableType], ...]:
    return tuple(sorted(variables.items()))


@lru_cache(maxsize=4_096)
def _compile(expression: str, signature: tuple[tuple[str, VariableType], ...]) -> cel.Expression:
    declared = {name: _TYPES[kind] for name, kind in signature}
    return cel.NewEnv(variables=declared).compile(expression)


def _sentences(error: Exception) -> tuple[str, ...]:
    """Return the compiler's messages without its pointer lines and status words."""
    lines = [line for line in str(error).splitlines() if line and not line.startswith(" | ")]
    texts = [
        line.replace("INVALID_ARGUMENT: ", "").replace("ERROR: <input>:", "at ") for line in lines
    ]
    return tuple(texts) or (type(error).__name__,)
