"""One saga as text for people: head, steps, plan, variables, timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from sagabus_core.engine import Activation, Member
from sagabus_orchestrator.queries import SagaDetail
from sagabus_orchestrator.timeline import timeline

__all__ = ["saga_text"]

_MAX_VALUE = 100


def saga_text(detail: SagaDetail, *, everything: bool) -> str:
    """Return the saga as a page of text."""
    return "\n".join(_lines(detail, everything=everything))


def _lines(detail: SagaDetail, *, everything: bool) -> Iterator[str]:
    head, saga = detail.summary, detail.snapshot
    took_s = (head.updated_at - head.created_at).total_seconds()
    paused = " (PAUSED)" if saga.control == "PAUSED" else ""
    yield f"{head.business_key}  {head.status}{paused}"
    yield f"  {head.workflow} {head.version} · tenant {head.tenant} · {head.saga_id}"
    yield (
        f"  started {head.created_at:%Y-%m-%d %H:%M:%S} · {took_s:.3f} s until its last change "
        f"· revision {head.revision}"
    )
    if detail.archived_at is not None:
        yield f"  in the archive since {detail.archived_at:%Y-%m-%d %H:%M:%S}"
    if saga.abort is not None:
        yield f"  turned back by {saga.abort.reason}"
    for key, reason in saga.reasons.items():
        yield f"  needs a person: {reason} ({key})"
    yield "steps"
    yield from _steps(saga.activations, saga.members)
    if saga.variables:
        yield "variables"
        for name, value in saga.variables.items():
            text = json.dumps(value, ensure_ascii=False)
            yield f"  {name} = {text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + '…'}"
    yield "timeline (seconds since the start)"
    for line in timeline(detail.facts, everything=everything):
        yield f"  {line}"


def _steps(activations: Mapping[str, Activation], members: Mapping[str, Member]) -> Iterator[str]:
    width = max((len(path) for path in activations), default=0)
    for path, activation in activations.items():
        member = members.get(path)
        undo = f"   undo: {member.state} ({_attempts(member)})" if member is not None else ""
        late = ", late" if activation.late else ""
        state = f"{activation.state}{' HALTED' if activation.halted else ''}"
        yield f"  {path:<{width}}  {state:<10} ({_attempts(activation)}{late}){undo}"


def _attempts(track: Activation | Member) -> str:
    told = [
        f"{channel.name.replace('_', ' ').lower()} {count}x"
        for channel, count in track.attempts.items()
    ]
    return ", ".join(told) or "not asked yet"
