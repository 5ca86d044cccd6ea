"""Errors of the pure core.

    SagabusError                 root of every error of this project; has a stable code
    ├── InvalidValue             a name, number, text or document breaks a documented rule
    └── IllegalTransition        the machine met a state and input that its table does not list

Each class says by `retryable` whether the same call can succeed later without any change by
the caller. Each package has its own root below `SagabusError`.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = ["IllegalTransition", "InvalidValue", "SagabusError"]


class SagabusError(Exception):
    """An error with a stable, documented code.

    `code` is lower snake case and listed in `contracts/errors.md`; `detail` is one sentence for
    people that names what is wrong and how to mend it, and holds no secret and no payload.
    """

    retryable: ClassVar[bool] = False

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail

    def __reduce__(self) -> tuple[type[SagabusError], tuple[str, str]]:
        # Without this, pickling across a process pool would call the constructor with one argument.
        return (type(self), (self.code, self.detail))


class InvalidValue(SagabusError):
    """A value at a door breaks a documented rule; the same value will never be accepted."""


class IllegalTransition(SagabusError):
    """The transition table lists no move for this state and input: a programming error."""
