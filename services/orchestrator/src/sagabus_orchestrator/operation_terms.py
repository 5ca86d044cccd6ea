"""What a management operation is asked with beyond its event, and what it answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sagabus_core.engine import OperationKind
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.audit.acts import Permit
from sagabus_orchestrator.quotas import Quotas
from sagabus_store import Connection

__all__ = ["ANYTHING", "Beside", "OperationOutcome", "Terms"]

Beside: TypeAlias = Callable[[Connection], Awaitable[None]]
"""What else belongs into the transaction of an operation, behind the lock of its saga and before
anything is decided; what it raises undoes all of it. Called for a repeated operation too."""


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms an operation is done; `is_metered`: it counts against the tenant's rate."""

    permit: Permit | None = None
    beside: Beside | None = None
    is_metered: bool = True

    def allow(self, permissions: frozenset[str], quotas: Quotas, tenant: str, now_ms: int) -> None:
        """Raise what `permit` raises, or `Refused` (`rate_limit_exceeded`); else count it."""
        if self.permit is not None:
            self.permit(permissions)
        if self.is_metered:
            quotas.operate(tenant, now_ms)


ANYTHING: Final = Terms()


@dataclass(frozen=True, slots=True)
class OperationOutcome:
    """What an operation did; `repeated` if it had been done before under the same id."""

    saga_id: str
    kind: OperationKind
    status: SagaStatus
    revision: int
    commands: tuple[str, ...]
    repeated: bool = False

    def __str__(self) -> str:
        issued = f", issued {'; '.join(self.commands)}" if self.commands else ""
        return f"{self.status}, revision {self.revision}{issued}"

    def body(self) -> dict[str, object]:
        """Return the stored form."""
        return {
            "saga_id": self.saga_id,
            "kind": self.kind,
            "status": self.status,
            "revision": self.revision,
            "commands": list(self.commands),
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> OperationOutcome:
        """Return what `body` stored: the outcome of a repeated operation."""
        return cls(
            saga_id=stored["saga_id"],
            kind=OperationKind(stored["kind"]),
            status=SagaStatus(stored["status"]),
            revision=stored["revision"],
            commands=tuple(stored["commands"]),
            repeated=True,
        )
