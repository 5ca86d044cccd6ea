"""Problems of a definition: all of them are reported at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sagabus_core.errors import InvalidValue

__all__ = ["InvalidDefinition", "Problem", "Problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule: where (`/steps/pay/execute/timeout_ms`), which, and how to mend it."""

    path: str
    rule: str
    mend: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.rule}: {self.mend}"


class InvalidDefinition(InvalidValue):
    """A definition is malformed or unsafe; `problems` lists every broken rule."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("invalid_definition", "; ".join(map(str, self.problems)))

    def __reduce__(self) -> tuple[type[InvalidDefinition], tuple[tuple[Problem, ...]]]:  # type: ignore[override]  # built from its problems
        return (type(self), (self.problems,))


class Problems:
    """Collects problems while a document is read."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: list[Problem] = []

    def add(self, path: str, rule: str, mend: str) -> None:
        """Note a broken rule; the same one is noted once."""
        problem = Problem(path, rule, mend)
        if problem not in self._found:
            self._found.append(problem)

    def __len__(self) -> int:
        return len(self._found)

    def raise_if_any(self) -> None:
        """Raise `InvalidDefinition` with everything that was noted so far."""
        if self._found:
            raise InvalidDefinition(self._found)
