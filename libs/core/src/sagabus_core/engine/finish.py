"""From a draft to the decision: the next snapshot and, if the status changed, its announcement."""

from __future__ import annotations

from sagabus_core.engine.draft import Draft
from sagabus_core.engine.effects import LifecycleChanged
from sagabus_core.engine.mapping import build_payload
from sagabus_core.engine.records import make
from sagabus_core.engine.snapshot import Decision, Snapshot
from sagabus_core.errors import InvalidValue
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import SagaStatus

__all__ = ["finish"]


def finish(draft: Draft) -> Decision:
    """Return the decision of a changed draft."""
    if draft.status is not draft.base.status or draft.base.revision == 0 or draft.deadline_told:
        draft.effects.append(_announcement(draft))
    return make(Decision, (_snapshot(draft), tuple(draft.effects)))


def _announcement(draft: Draft) -> LifecycleChanged:
    return LifecycleChanged(
        draft.base.saga_id,
        draft.base.revision + 1,
        draft.status,
        _reason_code(draft),
        draft.now_at_ms,
        _output(draft) if draft.status is SagaStatus.COMPLETED else None,
    )


def _reason_code(draft: Draft) -> str | None:
    if draft.status is draft.base.status and draft.deadline_told:
        return "instance_deadline_passed"
    if draft.reasons:
        return next(iter(draft.reasons.values()))
    return draft.abort.reason if draft.abort else None


def _output(draft: Draft) -> Payload | None:
    """Return the declared output; one beyond the limit is left out: the saga is complete anyway."""
    declared = draft.definition.output
    if declared is None:
        return None
    try:
        return build_payload(declared.fields, declared.contract, draft.variables)
    except InvalidValue:
        return None


def _snapshot(draft: Draft) -> Snapshot:
    base = draft.base
    # fmt: off
    snapshot = make(Snapshot, (
        base.saga_id, base.tenant, base.workflow, base.business_key,
        base.definition_version, base.definition_digest, base.revision + 1,
        draft.status, draft.control, draft.direction, draft.abort,
        base.deadline_at_ms, draft.deadline_passed,
        draft.variables, draft.activations, draft.members, draft.branches,
        draft.reasons, draft.payloads, draft.plan, draft.next_success,
        draft.armed_at_ms, draft.generation,
    ))
    # fmt: on
    snapshot.live = draft.live
    return snapshot
