"""Commands with many options: the fields of a dataclass are the options."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import TypeVar

__all__ = ["options_of"]

Asked = TypeVar("Asked")


def options_of(kind: type[Asked]) -> Callable[[Callable[[Asked], None]], Callable[..., None]]:
    """Let typer read the options of a command from the fields of `kind`, annotated as usual."""
    fields = [
        each.replace(kind=Parameter.KEYWORD_ONLY)
        for each in signature(kind, eval_str=True).parameters.values()
    ]

    def take(command: Callable[[Asked], None]) -> Callable[..., None]:
        @wraps(command)
        def taken(**given: object) -> None:
            command(kind(**given))

        taken.__signature__ = Signature(fields)  # type: ignore[attr-defined]  # typer reads it
        taken.__annotations__ = {each.name: each.annotation for each in fields}
        return taken

    return take
