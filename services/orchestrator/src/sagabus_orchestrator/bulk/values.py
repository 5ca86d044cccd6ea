"""Bulk operations as values. Pure."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import asyncpg

from sagabus_core.canonical import canonical_bytes
from sagabus_core.engine import Cancel, ManagementEvent, Operation, Pause, Resume, Retry
from sagabus_core.vocabulary import Control, SagaStatus
from sagabus_orchestrator.holds import PLATFORM

__all__ = ["Bulk", "BulkFilter", "BulkKind", "BulkOrder", "BulkState", "Refusal"]

_NAMESPACE: Final = uuid.uuid5(uuid.NAMESPACE_URL, "urn:sagabus:bulk")


class BulkKind(StrEnum):
    """The operations that can be done in bulk: those that take no decision about one saga."""

    PAUSE = "pause"
    RESUME = "resume"
    CANCEL = "cancel"
    RETRY = "retry"


class BulkState(StrEnum):
    """Where a bulk operation stands; DONE and CANCELLED are final."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class BulkFilter:
    """Which sagas that are not at their end are meant; None does not restrict.

    `participant` and `step` are about a command that is open now. `since` and `until` are about
    the beginning of the saga, `until` excluded.
    """

    tenants: Sequence[str] | None = None
    workflow: str | None = None
    statuses: Sequence[SagaStatus] | None = None
    key_prefix: str | None = None
    control: Control | None = None
    since: datetime | None = None
    until: datetime | None = None
    participant: str | None = None
    step: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return the members that restrict, without the tenants, as they are stored."""
        told = {
            "workflow": self.workflow,
            "statuses": sorted(self.statuses) if self.statuses is not None else None,
            "key_prefix": self.key_prefix,
            "control": self.control,
            "since": self.since.isoformat() if self.since else None,
            "until": self.until.isoformat() if self.until else None,
            "participant": self.participant,
            "step": self.step,
        }
        return {name: value for name, value in told.items() if value is not None}

    @classmethod
    def of(cls, stored: Mapping[str, Any], tenants: Sequence[str] | None) -> BulkFilter:
        """Return what `plain` stored."""
        statuses, control = stored.get("statuses"), stored.get("control")
        since, until = stored.get("since"), stored.get("until")
        return cls(
            tenants=tenants,
            workflow=stored.get("workflow"),
            statuses=None if statuses is None else [SagaStatus(each) for each in statuses],
            key_prefix=stored.get("key_prefix"),
            control=None if control is None else Control(control),
            since=None if since is None else datetime.fromisoformat(since),
            until=None if until is None else datetime.fromisoformat(until),
            participant=stored.get("participant"),
            step=stored.get("step"),
        )


@dataclass(frozen=True, slots=True)
class BulkOrder:
    """What somebody asks for: at most `most` sagas, under an operation id of their choice.

    `permitted`: what they may do, in the engine's names of permissions; None: anything.
    """

    kind: BulkKind
    wanted: BulkFilter
    most: int
    actor: str
    reason: str
    operation_id: str
    permitted: frozenset[str] | None = None

    @property
    def id(self) -> str:
        """The id of the bulk operation: one operation id of one actor means one thing."""
        text = canonical_bytes(["bulk", self.actor, self.operation_id]).decode()
        return str(uuid.uuid5(_NAMESPACE, text))


@dataclass(frozen=True, slots=True)
class Bulk:
    """A bulk operation with its progress; `note` says why it waits, `is_overdue`: nobody works.

    `answerable`: in whose name sagas are changed from now on, with the rights `order.permitted`:
    whoever began it, or resumed it last.
    """

    id: str
    order: BulkOrder
    answerable: str
    state: BulkState
    position: str
    done: int
    refused: int
    failed: int
    note: str
    turn: int
    is_overdue: bool
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: asyncpg.Record) -> Bulk:
        """Return the bulk operation of a row."""
        permitted = row["permitted"]
        order = BulkOrder(
            kind=BulkKind(row["kind"]),
            wanted=BulkFilter.of(json.loads(row["filter"]), row["tenants"]),
            most=row["most"],
            actor=row["actor"],
            reason=row["reason"],
            operation_id=row["operation_id"],
            permitted=None if permitted is None else frozenset(permitted),
        )
        own = ("done", "refused", "failed", "note", "turn", "is_overdue")
        return cls(
            id=str(row["id"]),
            order=order,
            answerable=row["answerable"] or order.actor,
            state=BulkState(row["state"]),
            position=str(row["position"]),
            created_at=row["created_at"],
            updated_at=row["updated_at"],
            **{name: row[name] for name in own},
        )

    @property
    def handled(self) -> int:
        """How many sagas it is done with."""
        return self.done + self.refused + self.failed

    def event(self, saga_id: str) -> ManagementEvent:
        """Return the operation on one saga; its id derives, so that a restart repeats nothing."""
        name = str(uuid.uuid5(uuid.UUID(self.id), saga_id))
        operation = Operation(name, self.answerable, f"{self.order.reason} (bulk {self.id})")
        if self.order.wanted.tenants is None:
            # One text in the journals of all tenants: who acts on all, and why, is in the audit.
            reason = f"bulk operation of the platform (bulk {self.id})"
            operation = Operation(name, PLATFORM, reason)
        match self.order.kind:
            case BulkKind.PAUSE:
                return Pause(operation)
            case BulkKind.RESUME:
                return Resume(operation)
            case BulkKind.CANCEL:
                return Cancel(operation)
            case BulkKind.RETRY:
                return Retry(operation)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A saga that could not be changed, and why; `failed`: for no reason of its own."""

    saga_id: str
    business_key: str
    code: str
    detail: str
    failed: bool = False
