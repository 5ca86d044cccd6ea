"""What commands ask for, and the port behind which both ways of answering stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from sagabus_core.engine import OperationKind
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.audit.pages import Wanted
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.quotas import Action

__all__ = [
    "Document",
    "Limited",
    "Listing",
    "Office",
    "Order",
    "SagaName",
    "Steering",
]

Document: TypeAlias = dict[str, Any]
"""One JSON object, as contracts/openapi.json describes it."""

Steering: TypeAlias = Literal["activate", "deprecate", "retire"]

Limited: TypeAlias = Literal["running"] | Action
"""What of a tenant can be limited."""


@dataclass(frozen=True, slots=True)
class SagaName:
    """A saga as somebody typed it: its id, or a business key and what makes that unique."""

    text: str
    tenant: str | None = None
    workflow: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Which sagas to list; None does not restrict."""

    tenant: str | None
    workflow: str | None
    statuses: Sequence[SagaStatus]
    key_prefix: str | None
    archived: bool
    limit: int
    cursor: str | None


@dataclass(frozen=True, slots=True)
class Order:
    """A management operation; `attest` and `evidence` are those of `record-outcome`."""

    kind: OperationKind
    reason: str
    operation_id: str
    expected_revision: int | None
    dry_run: bool
    attest: str | None = None
    evidence: str | None = None


class Office(Protocol):
    """Answers commands. Raises what the way raises: errors of the store, or `CliError`s."""

    def sagas(self, wanted: Listing) -> Document:
        """Return a page: `SagaPage`."""

    def saga(self, name: SagaName) -> Document:
        """Return a saga: `SagaAnswer`, and its `journal` as of the same revision."""

    def await_change(self, saga_id: str, revision: int) -> None:
        """Return once a saga is beyond a revision or settled, or after a while: look again."""

    def why(self, name: SagaName, groups: Sequence[str] | None) -> Document:
        """Return what a saga waits for: `WhyAnswer`."""

    def operate(self, name: SagaName, order: Order) -> Document:
        """Do an operation, or say what it would do: `OperationAnswer`."""

    def definitions(self) -> Document:
        """Return what is published: `DefinitionList`."""

    def definition(self, ref: DefinitionRef) -> Document:
        """Return a published definition: `DefinitionDocument`."""

    def publish(self, raw: bytes, reason: str) -> Document:
        """Publish a draft: `DefinitionAnswer`."""

    def steer(self, verb: Steering, ref: DefinitionRef, reason: str) -> Document:
        """Change the state of a definition: `DefinitionAnswer`."""

    def facts(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of the journal of all sagas: `FactPageAnswer`."""

    def audit(self, wanted: Wanted, limit: int, cursor: str | None) -> Document:
        """Return a page of management operations: `AuditPageAnswer`."""

    def quota(self, tenant: str) -> Document:
        """Return what a tenant may do and has used: `QuotaAnswer`."""

    def set_quota(
        self, tenant: str, most: Mapping[Limited, int], window_ms: int, reason: str
    ) -> Document:
        """Set limits of a tenant; those that are not named stay: `QuotaAnswer`."""

    def remove_quota(self, tenant: str, what: Sequence[Limited], reason: str) -> Document:
        """Take limits of a tenant away: `QuotaAnswer`."""
