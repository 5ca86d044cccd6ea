"""Strict reading of a JSON object: every field is asked for, everything else is a problem."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Final, TypeVar

from sagabus_core.definitions.limits import MAX_TEXT, VARIABLE
from sagabus_core.definitions.problems import Problems
from sagabus_core.errors import InvalidValue
from sagabus_core.names import check_name

__all__ = ["Fields", "good_name", "pointer_to"]

_Word = TypeVar("_Word", bound=StrEnum)
_ABSENT: Final = object()


def pointer_to(path: str, token: str) -> str:
    """Return the JSON pointer of a member."""
    return f"{path}/{token.replace('~', '~0').replace('/', '~1')}"


class Fields:
    """One object of the document. Readers return None after noting a problem, so reading goes on.

    `close` notes every field that nobody asked for.
    """

    __slots__ = ("_asked", "_data", "path", "problems")

    def __init__(self, problems: Problems, path: str, value: object) -> None:
        self.problems = problems
        self.path = path
        self._asked: set[str] = set()
        self._data: Mapping[str, object] = {}
        if isinstance(value, dict):
            self._data = value
        else:
            problems.add(path, "object_expected", "write a JSON object here")

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def items(self) -> Iterator[tuple[str, str, object]]:
        """Yield (name, path, value) of every field: for objects that are dictionaries."""
        self._asked.update(self._data)
        for name, value in self._data.items():
            yield name, self.at(name), value

    def at(self, name: str) -> str:
        """Return the path of a field."""
        return pointer_to(self.path, name)

    def note(self, name: str, rule: str, mend: str) -> None:
        """Note a problem of a field."""
        self.problems.add(self.at(name), rule, mend)

    def raw(self, name: str, *, required: bool = True) -> object:
        """Return a field as it is, or None; a JSON null counts as absent nowhere."""
        self._asked.add(name)
        value = self._data.get(name, _ABSENT)
        if value is _ABSENT:
            if required:
                self.note(name, "field_missing", f"add the field {name!r}")
            return None
        if value is None:
            self.note(name, "null_refused", f"leave {name!r} out instead of writing null")
        return value

    def child(self, name: str, *, required: bool = True) -> Fields | None:
        """Return an object field."""
        value = self.raw(name, required=required)
        return None if value is None else Fields(self.problems, self.at(name), value)

    def text(self, name: str, *, required: bool = True) -> str | None:
        """Return a text of 1 to 256 printable characters."""
        value = self.raw(name, required=required)
        if value is None:
            return None
        if not isinstance(value, str) or not 1 <= len(value) <= MAX_TEXT or not value.isprintable():
            self.note(name, "text_expected", f"write 1 to {MAX_TEXT} printable characters")
            return None
        return value

    def matching(self, name: str, pattern: str) -> str | None:
        """Return a text of a form that the wire prescribes."""
        value = self.text(name)
        if value is not None and re.fullmatch(pattern.removesuffix("$"), value) is None:
            self.note(name, f"invalid_{name}", f"write what matches {pattern}")
            return None
        return value

    def name(self, name: str, *, required: bool = True) -> str | None:
        """Return a name as activations, steps and participants bear it."""
        value = self.text(name, required=required)
        return value if value is None or good_name(self.problems, self.at(name), value) else None

    def variable(self, name: str) -> str | None:
        """Return the name of a variable."""
        value = self.text(name)
        if value is not None and VARIABLE.fullmatch(value) is None:
            self.note(name, "invalid_variable", f"a variable matches {VARIABLE.pattern}")
            return None
        return value

    def flag(self, name: str, *, required: bool = True) -> bool | None:
        """Return a boolean."""
        value = self.raw(name, required=required)
        if value is not None and not isinstance(value, bool):
            self.note(name, "boolean_expected", "write true or false")
            return None
        return value

    def integer(self, name: str, limit: int, *, required: bool = True) -> int | None:
        """Return an integer from 1 to `limit`."""
        value = self.raw(name, required=required)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            self.note(name, "out_of_range", f"write an integer from 1 to {limit}")
            return None
        return value

    def number(self, name: str, least: float, limit: float) -> float | None:
        """Return an optional number between `least` and `limit`."""
        value = self.raw(name, required=False)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            self.note(name, "number_expected", f"write a number from {least} to {limit}")
            return None
        if not least <= value <= limit:
            self.note(name, "out_of_range", f"write a number from {least} to {limit}")
            return None
        return float(value)

    def word(self, name: str, words: type[_Word], *, required: bool = True) -> _Word | None:
        """Return one word of a closed list."""
        value = self.raw(name, required=required)
        if value is None:
            return None
        if not isinstance(value, str) or value not in set(words):
            self.note(name, "not_one_of", f"write one of {', '.join(words)}")
            return None
        return words(value)

    def close(self) -> None:
        """Note what nobody asked for."""
        for name in self._data:
            if name not in self._asked:
                self.note(name, "unknown_field", f"remove {name!r} or correct its spelling")


def good_name(problems: Problems, path: str, value: str) -> bool:
    """Return whether `value` is a name; note a problem if it is not."""
    try:
        check_name(value, "the name")
    except InvalidValue as cause:
        problems.add(path, "invalid_name", cause.detail)
        return False
    return True
