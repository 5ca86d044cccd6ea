"""Dry runs: what an event would do, what an abort would undo, which permission it takes."""

from __future__ import annotations

from dataclasses import dataclass

from sagabus_core.definitions.model import Definition
from sagabus_core.engine.decide import decide
from sagabus_core.engine.effects import IssueCommand
from sagabus_core.engine.events import Event, ManagementEvent, Retry
from sagabus_core.engine.plan import build_plan
from sagabus_core.engine.snapshot import Plan, Snapshot
from sagabus_core.engine.vocabulary import Channel, ManualReason
from sagabus_core.vocabulary import SagaStatus

__all__ = ["Preview", "preview", "preview_compensation", "required_permissions"]

_RETRY_PERMISSIONS = {
    Channel.EXECUTE: "retry_step",
    Channel.CANCEL: "retry_step",
    Channel.RESOLVE_EXECUTE: "retry_resolution",
    Channel.RESOLVE_COMPENSATE: "retry_resolution",
    Channel.COMPENSATE: "retry_compensation",
}


@dataclass(frozen=True, slots=True)
class Preview:
    """What would be true after an event, and which commands would go out."""

    before: SagaStatus
    after: SagaStatus
    commands: tuple[IssueCommand, ...]
    reasons: tuple[ManualReason, ...]
    plan: Plan | None


def preview(definition: Definition, snapshot: Snapshot, event: Event, now_at_ms: int) -> Preview:
    """Decide without writing: same rules, same refusals as the real thing at this moment."""
    decision = decide(definition, snapshot, event, now_at_ms)
    after = decision.snapshot
    reasons = tuple(after.reasons.values())
    return Preview(snapshot.status, after.status, decision.commands, reasons, after.plan)


def preview_compensation(definition: Definition, snapshot: Snapshot) -> Plan:
    """Return the plan that an abort would freeze now; the frozen one if it exists.

    Version 0 marks a preview. What is open could still succeed and join in front.
    """
    return snapshot.plan or build_plan(definition, snapshot, snapshot.saga_id, 0)


def required_permissions(
    definition: Definition, snapshot: Snapshot, event: ManagementEvent, now_at_ms: int
) -> frozenset[str]:
    """Return the permissions that an operation takes: its name, for `retry` by what it re-issues.

    Raises like `decide`: whoever must not know that a saga exists is refused before this.
    """
    if not isinstance(event, Retry):
        return frozenset({event.kind.value})
    commands = decide(definition, snapshot, event, now_at_ms).commands
    return frozenset(_RETRY_PERMISSIONS[command.channel] for command in commands)
