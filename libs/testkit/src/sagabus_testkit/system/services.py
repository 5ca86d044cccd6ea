"""Which processes the system consists of, and what each needs from its environment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["API", "PARTICIPANTS", "SERVICES", "ServiceKind"]


@dataclass(frozen=True, slots=True)
class ServiceKind:
    """A service: `python -m <module>`; `database_of`: whose database it shares, else its own."""

    name: str
    module: str
    uses_kafka: bool = True
    has_outbox: bool = True
    database_of: str | None = None

    @property
    def owner(self) -> str:
        """The service whose database this one works on."""
        return self.database_of or self.name


PARTICIPANTS: Final = ("inventory", "payment", "shipping")

SERVICES: Final[tuple[ServiceKind, ...]] = (
    ServiceKind("orchestrator", "sagabus_orchestrator"),
    ServiceKind("timer", "sagabus_timer"),
    ServiceKind("relay", "sagabus_relay", has_outbox=False),
    ServiceKind("inventory", "sagabus_example_inventory"),
    ServiceKind("payment", "sagabus_example_payment"),
    ServiceKind("shipping", "sagabus_example_shipping"),
    ServiceKind("cards", "sagabus_example_cards", uses_kafka=False, has_outbox=False),
)
"""In the order in which they start; they need not wait for each other."""

API: Final = ServiceKind(
    "api", "sagabus_orchestrator.api", has_outbox=False, database_of="orchestrator"
)
"""The HTTP API, for systems that people look at: add it to the kinds."""
