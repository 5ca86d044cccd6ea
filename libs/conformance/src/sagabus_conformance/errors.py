"""Errors of the conformance suite.

SagabusError
└── ConformanceError       root: the suite itself cannot work; says nothing about the participant
    ├── UnfitProfile       what the suite was told about the step does not hold together
    ├── HookFailed         a command that the user gave (effects, kill, restart) did not do its work
    ├── Breach             a guarantee is broken; never leaves the suite
    └── Inconclusive       a check cannot tell; never leaves the suite
"""

from __future__ import annotations

from sagabus_conformance.guarantees import Guarantee
from sagabus_core.errors import SagabusError

__all__ = ["Breach", "ConformanceError", "HookFailed", "Inconclusive", "UnfitProfile"]


class ConformanceError(SagabusError):
    """Root of the errors of this package."""


class UnfitProfile(ConformanceError):
    """Options, definition or payloads do not describe a step that could be checked."""


class HookFailed(ConformanceError):
    """A command of the user's failed, hung, or printed what cannot be read."""


class Breach(ConformanceError):
    """The participant broke this guarantee; `detail` says by what."""

    def __init__(self, guarantee: Guarantee, detail: str) -> None:
        super().__init__(guarantee.value.replace("-", "_"), detail)
        self.guarantee = guarantee

    def __reduce__(self) -> tuple[type[Breach], tuple[Guarantee, str]]:
        return (type(self), (self.guarantee, self.detail))


class Inconclusive(ConformanceError):
    """Nothing is broken, and nothing is proved: `detail` says why."""
