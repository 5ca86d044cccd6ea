"""Errors of the orchestrator.

OrchestratorError            root of this package
├── Refused                  an operation or start cannot be done as asked; nothing changed
│   └── Held                 a hold keeps back the commands that an operation would issue
├── TurnLost                 somebody else has taken over a piece of work
├── NotFound                 no such saga or definition for this tenant
├── RivalStart               another replica started the same saga meanwhile (retryable)
├── StaleCatalog             definitions changed since this replica loaded them (retryable)
└── OrphanedInstances        running sagas need a definition that is not here (retryable)
"""

from __future__ import annotations

from typing import ClassVar

from sagabus_core.errors import SagabusError

__all__ = [
    "Held",
    "NotFound",
    "OrchestratorError",
    "OrphanedInstances",
    "Refused",
    "RivalStart",
    "StaleCatalog",
    "TurnLost",
]


class OrchestratorError(SagabusError):
    """Root of the errors of the orchestrator."""


class Refused(OrchestratorError):
    """What was asked cannot be done as things stand; nothing was changed."""


class Held(Refused):
    """An operator holds the workflow, or a participant that would be asked: by `hold_id`."""

    def __init__(self, code: str, detail: str, hold_id: str = "") -> None:
        super().__init__(code, detail)
        self.hold_id = hold_id


class TurnLost(OrchestratorError):
    """Another replica works on this by now, or it was stopped: leave it alone."""


class NotFound(OrchestratorError):
    """There is no such saga or definition, or it belongs to somebody else."""


class RivalStart(OrchestratorError):
    """Another replica took the key of a new saga: the same batch, decided again, will see it."""

    retryable: ClassVar[bool] = True


class StaleCatalog(OrchestratorError):
    """The definitions have another generation than those loaded here: load them, decide again."""

    retryable: ClassVar[bool] = True


class OrphanedInstances(OrchestratorError):
    """A definition that running sagas need is missing; publishing it mends it."""

    retryable: ClassVar[bool] = True
