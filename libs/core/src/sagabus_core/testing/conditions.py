"""A tiny condition language for tests: `flag`, `not flag`, `amount > 3`, `color == "red"`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions.model import VariableType
from sagabus_core.errors import ConditionError

__all__ = ["TinyConditions"]

_FORM = re.compile(r"(?P<negated>not )?(?P<left>[a-z][a-z0-9_]*)( (?P<op>==|>) (?P<right>.+))?")
_CONSTANTS = {"true": True, "false": False}


class TinyConditions:
    """Follows the port `Conditions`.

    A value of another type than the form needs is an error, so `condition_error` can be reached
    by the data of a `json` variable.
    """

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        """Return what is wrong: the form, or a name that does not exist."""
        form = _FORM.fullmatch(expression)
        if form is None:
            return (f"cannot read {expression!r}",)
        name = form["left"]
        if name in variables or name in _CONSTANTS:
            return ()
        return (f"there is no variable {name!r}",)

    def evaluate(
        self,
        expression: str,
        variables: Mapping[str, JsonValue],
        types: Mapping[str, VariableType],
    ) -> bool:
        """Return the value, or raise `ConditionError` for a value of the wrong type."""
        del types
        form = _FORM.fullmatch(expression)
        if form is None:
            raise ConditionError("condition_error", f"cannot read {expression!r}")
        left = _CONSTANTS.get(form["left"], variables.get(form["left"]))
        if form["op"] is None:
            value: object = left
        elif form["op"] == "==":
            value = left == json.loads(form["right"])
        else:
            value = isinstance(left, int) and left > int(form["right"])
            value = value if isinstance(left, int) else None
        if not isinstance(value, bool):
            raise ConditionError("condition_error", f"{expression!r} has no value")
        return value != bool(form["negated"])
