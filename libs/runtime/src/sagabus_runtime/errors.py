"""Errors of the runtime.

SagabusError
└── RuntimeProblem           root of this package
    ├── SettingsError        an environment variable is missing or wrong
    ├── LoopFault            a supervised loop ended although nobody asked it to
    │   └── LoopStalled      a supervised loop gave no sign of life in time (retryable)
    └── InjectedFault        a failpoint was told to fail with this kind (retryable)
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import SagabusError

__all__ = [
    "InjectedFault",
    "LoopFault",
    "LoopStalled",
    "RuntimeProblem",
    "SettingsError",
    "is_retryable",
]


class RuntimeProblem(SagabusError):
    """Root of the errors of this package."""


class SettingsError(RuntimeProblem):
    """The environment does not describe a service that can run; raised before any connection."""


class LoopFault(RuntimeProblem):
    """A supervised loop returned without being asked to stop: a programming error."""


class LoopStalled(LoopFault):
    """A supervised loop missed its deadline for a sign of life and was cancelled."""

    retryable: ClassVar[bool] = True


class InjectedFault(RuntimeProblem):
    """What an armed failpoint raises; `kind` is a SQLSTATE or any other word of its spec."""

    retryable: ClassVar[bool] = True

    def __init__(self, code: str, detail: str, kind: str = "") -> None:
        super().__init__(code, detail)
        self.kind = kind


def is_retryable(error: BaseException) -> bool:
    """Return whether the same work can succeed later unchanged: an outage, not a bug."""
    if isinstance(error, SagabusError):
        return error.retryable
    return isinstance(error, OSError | TimeoutError)
