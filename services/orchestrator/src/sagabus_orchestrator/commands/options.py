"""Commands with many options: the options are the fields of a dataclass."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import TypeVar

__all__ = ["takes"]

T = TypeVar("T")


def takes(options: type[T]) -> Callable[[Callable[[T], None]], Callable[..., None]]:
    """Make a function of one dataclass a command that typer reads the fields of."""
    found = signature(options, eval_str=True).parameters.values()
    parameters = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in found]

    def wrap(work: Callable[[T], None]) -> Callable[..., None]:
        def command(**given: object) -> None:
            work(options(**given))

        command.__name__, command.__doc__ = work.__name__, work.__doc__
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # typer reads it
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return command

    return wrap
