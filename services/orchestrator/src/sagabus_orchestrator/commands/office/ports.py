"""What commands ask for, and the port behind which both ways of answering stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from sagabus_core.engine import OperationKind
from sagabus_core.errors import SagabusError
from sagabus_core.vocabulary import SagaStatus
from sagabus_orchestrator.api.identity import KeyRequest
from sagabus_orchestrator.audit.pages import Wanted
from sagabus_orchestrator.bulk import BulkFilter, BulkKind
from sagabus_orchestrator.catalog import DefinitionRef
from sagabus_orchestrator.letters import LetterFilter
from sagabus_orchestrator.quotas import Action
from sagabus_orchestrator.switchboard import Target

__all__ = [
    "BulkVerb",
    "DeedDone",
    "Document",
    "LetterOrder",
    "Limited",
    "Listing",
    "ManyOrder",
    "Office",
    "Order",
    "Outages",
    "SagaName",
    "Steering",
    "Switch",
]

Document: TypeAlias = dict[str, Any]
"""One JSON object, as contracts/openapi.json describes it."""

Steering: TypeAlias = Literal["activate", "deprecate", "retire"]

BulkVerb: TypeAlias = Literal["pause", "resume", "cancel"]

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


@dataclass(frozen=True, slots=True)
class LetterOrder:
    """What to do to dead letters, named (ids or places) or, if `wanted` is given, by that."""

    kind: Literal["redrive", "discard"]
    names: Sequence[str]
    wanted: LetterFilter | None
    reason: str
    operation_id: str
    edited: bytes | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ManyOrder:
    """One operation on every saga that `wanted` names, refused if those are more than `most`."""

    kind: BulkKind
    wanted: BulkFilter
    most: int
    reason: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class Switch:
    """A workflow or participant to hold or release; without a tenant that of all."""

    target: Target
    name: str
    tenant: str | None


DeedDone: TypeAlias = tuple[Document, Document | SagabusError]
"""A letter (`LetterAnswer`), and what was done to it (`DeedAnswer`) or why nothing was."""


class Outages(Protocol):
    """Who is told of outages while something is watched."""

    outage_s: float
    """How long one may last."""

    def begun(self, error: SagabusError) -> None:
        """Hear that one goes on."""

    def over(self) -> None:
        """Hear that none goes on."""


class Office(Protocol):
    """Answers commands. Raises what the way raises: errors of the store, or `CliError`s."""

    def sagas(self, wanted: Listing) -> Document:
        """Return a page: `SagaPage`."""

    def news(self, wanted: Listing, outages: Outages) -> Iterator[None]:
        """Yield whenever a page may have changed, and now and then."""

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

    def quotas(self, behind: str, limit: int) -> Document:
        """Return the limits of at most `limit` tenants behind one, by name: `QuotaList`."""

    def quota(self, tenant: str) -> Document:
        """Return what a tenant may do and has used: `QuotaAnswer`."""

    def set_quota(
        self, tenant: str, most: Mapping[Limited, int], window_ms: int, reason: str
    ) -> Document:
        """Set limits of a tenant; those that are not named stay: `QuotaAnswer`."""

    def remove_quota(self, tenant: str, what: Sequence[Limited], reason: str) -> Document:
        """Take limits of a tenant away: `QuotaAnswer`."""

    def letters(self, wanted: LetterFilter, limit: int, cursor: str | None) -> Document:
        """Return dead letters by place: `LetterPage`."""

    def letter(self, name: str) -> Document:
        """Return the dead letter of an id or place: `LetterDetail`."""

    def handle(self, order: LetterOrder) -> list[DeedDone]:
        """Redrive or discard dead letters by place; one that is refused does not stop others."""

    def preview_bulk(self, order: ManyOrder) -> Document:
        """Return what a bulk operation would mean now: `BulkPreview`."""

    def start_bulk(self, order: ManyOrder) -> Document:
        """Begin a bulk operation, once per operation id: `BulkAnswer`."""

    def bulk(self, bulk_id: str) -> Document:
        """Return a bulk operation with its progress: `BulkAnswer`."""

    def bulk_refusals(self, bulk_id: str, limit: int, cursor: str | None) -> Document:
        """Return sagas that a bulk operation could not change: `RefusalList`."""

    def bulks(self, limit: int, cursor: str | None) -> Document:
        """Return bulk operations, newest first: `BulkList`."""

    def steer_bulk(self, bulk_id: str, verb: BulkVerb, reason: str) -> Document:
        """Pause, go on with or end a bulk operation: `BulkAnswer`."""

    def holds(self) -> Document:
        """Return what is held: `HoldList`."""

    def hold(self, switch: Switch, reason: str) -> Document:
        """Set a hold: `HoldAnswer`."""

    def release(self, switch: Switch, reason: str) -> None:
        """Release a hold."""

    def keys(self, limit: int, cursor: str | None) -> Document:
        """Return API keys by name: `KeyList`."""

    def create_key(self, request: KeyRequest, reason: str) -> Document:
        """Make an API key and return it this once: `KeyMade`."""

    def revoke_key(self, name: str, reason: str) -> Document:
        """Let an API key count no longer: `KeyAnswer`."""

    def key_counts(self, text: str) -> bool:
        """Return whether this is a key that counts, whatever it permits."""
