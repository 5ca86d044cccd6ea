"""One saga as text for people: head, steps, plan, variables, timeline."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from sagabus_orchestrator.commands.office import Document
from sagabus_orchestrator.timeline import timeline

__all__ = ["moment", "saga_text", "standing"]

_MAX_VALUE = 100


def saga_text(saga: Document, *, everything: bool) -> str:
    """Return the saga as a page of text."""
    return "\n".join(_lines(saga, everything=everything))


def standing(saga: Document) -> str:
    """Return where a saga stands, in one or two words."""
    if saga["archived_at"] is not None:
        return f"{saga['status']} (archived)"
    return f"{saga['status']} (PAUSED)" if saga["control"] == "PAUSED" else str(saga["status"])


def moment(text: str) -> datetime:
    """Return an instant of a document."""
    return datetime.fromisoformat(text)


def _lines(saga: Document, *, everything: bool) -> Iterator[str]:
    created, updated = moment(saga["created_at"]), moment(saga["updated_at"])
    paused = " (PAUSED)" if saga["control"] == "PAUSED" else ""
    yield f"{saga['business_key']}  {saga['status']}{paused}"
    workflow = f"{saga['workflow']} {saga['definition_version']}"
    yield f"  {workflow} · tenant {saga['tenant']} · {saga['saga_id']}"
    yield (
        f"  started {created:%Y-%m-%d %H:%M:%S} · {(updated - created).total_seconds():.3f} s "
        f"until its last change · revision {saga['revision']}"
    )
    if saga["archived_at"] is not None:
        yield f"  in the archive since {moment(saga['archived_at']):%Y-%m-%d %H:%M:%S}"
    if saga["abort"] is not None:
        yield f"  turned back by {saga['abort']['reason']}"
    for key, reason in saga["reasons"].items():
        yield f"  needs a person: {reason} ({key})"
    yield "steps"
    yield from _steps(saga["steps"], {track["activation"]: track for track in saga["undo"]})
    if saga["variables"]:
        yield "variables"
        for name, value in saga["variables"].items():
            text = json.dumps(value, ensure_ascii=False)
            yield f"  {name} = {text if len(text) <= _MAX_VALUE else text[:_MAX_VALUE] + '…'}"
    yield "timeline (seconds since the start)"
    for line in timeline(saga["journal"], everything=everything):
        yield f"  {line}"


def _steps(steps: Sequence[Document], undo: Document) -> Iterator[str]:
    width = max((len(step["activation"]) for step in steps), default=0)
    for step in steps:
        member = undo.get(step["activation"])
        undone = f"   undo: {member['state']} ({_attempts(member)})" if member is not None else ""
        late = ", late" if step["late"] else ""
        state = f"{step['state']}{' HALTED' if step['halted'] else ''}"
        yield f"  {step['activation']:<{width}}  {state:<10} ({_attempts(step)}{late}){undone}"


def _attempts(track: Document) -> str:
    told = [
        f"{name.replace('_', ' ').lower()} {count}x" for name, count in track["attempts"].items()
    ]
    return ", ".join(told) or "not asked yet"
