"""The port to the expression language of conditions; the core knows no particular language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions.model import VariableType
from sagabus_core.errors import ConditionError

__all__ = ["Conditions", "NoConditions"]


class Conditions(Protocol):
    """A safe expression language: typed, without side effects, with bounded evaluation."""

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        """Return one sentence per problem of `expression`; empty means: a valid condition.

        `variables` are all the names that exist; any other name is a problem, and so is a
        result that is not a boolean. Called when a definition is parsed.
        """

    def evaluate(
        self,
        expression: str,
        variables: Mapping[str, JsonValue],
        types: Mapping[str, VariableType],
    ) -> bool:
        """Return the value of a checked expression, or raise `ConditionError`.

        `types` are the declared variables: JSON writes the number 2.0 as 2, and only its
        declaration tells that it is no integer.
        Must depend on its arguments alone: the same call gives the same answer for ever.
        """


class NoConditions:
    """Refuses every expression: for processes and tests that know no choices."""

    def check(self, expression: str, variables: Mapping[str, VariableType]) -> Sequence[str]:
        """Name the one problem: there is no expression language here."""
        del expression, variables
        return ("no expression language is configured",)

    def evaluate(
        self,
        expression: str,
        variables: Mapping[str, JsonValue],
        types: Mapping[str, VariableType],
    ) -> bool:
        """Raise: nothing that this class accepted can reach this point."""
        del variables, types
        raise ConditionError("condition_error", f"no expression language for {expression!r}")
