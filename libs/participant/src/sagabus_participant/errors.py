"""Errors of the participant SDK.

SagabusError
└── ParticipantError         root of this package
    ├── RegistrationError    a step or its handler is declared wrongly; raised at start-up
    ├── OutputError          a handler's output is no JSON, or too large
    ├── CallbackError        a second result for an effect that waits for none
    └── Transient            raised by handlers: try again later (retryable)
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import SagabusError

__all__ = [
    "CallbackError",
    "OutputError",
    "ParticipantError",
    "RegistrationError",
    "Transient",
]


class ParticipantError(SagabusError):
    """Root of the errors of this package."""


class RegistrationError(ParticipantError):
    """A participant, step or handler signature is declared wrongly: nothing was started."""


class OutputError(ParticipantError):
    """A handler returned an output that no message can carry."""


class CallbackError(ParticipantError):
    """The effect is unknown here, or nothing was called for it, so that nobody waits."""


class Transient(ParticipantError):
    """Raise this in a handler: nothing is wrong with the command, it will work later.

    A local step is rolled back and run again after a back-off until the command expires. An
    external step is called again only where it is declared idempotent, else the answer is UNKNOWN.
    """

    retryable: ClassVar[bool] = True

    def __init__(self, detail: str, code: str = "transient") -> None:
        super().__init__(code, detail)

    def __reduce__(self) -> tuple[type[Transient], tuple[str, str]]:
        return (type(self), (self.detail, self.code))
