"""A journal as a story: one line per fact that people care about."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sagabus_core.engine import FactKind
from sagabus_core.engine.table import Move
from sagabus_orchestrator.queries import Fact

__all__ = ["Line", "timeline"]

_QUIET: Final = frozenset({FactKind.STATE, FactKind.WAKEUP})
"""Facts that follow from others: the state of a step from its answers, wake-ups from deadlines."""
_MAX_DATA: Final = 120


@dataclass(frozen=True, slots=True)
class Line:
    """What happened `after_ms` after the first fact; `mark` is one character."""

    at: str
    after_ms: int
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.after_ms / 1000:+9.3f}  {self.mark} {self.text}"


def timeline(facts: Iterable[Fact], *, everything: bool = False) -> list[Line]:
    """Return the lines of a journal in order; `everything` tells the derived facts too."""
    lines: list[Line] = []
    begin: datetime | None = None
    for fact in facts:
        body = fact.body
        at = datetime.fromisoformat(body["at"])
        begin = begin or at
        if body["kind"] in _QUIET and not everything:
            continue
        mark, text = _told(body)
        after_ms = round((at - begin).total_seconds() * 1000)
        lines.append(Line(body["at"], after_ms, mark, text + _by_whom(body)))
    return lines


def _told(body: Mapping[str, Any]) -> tuple[str, str]:
    detail: Mapping[str, Any] = body.get("detail") or {}
    subject, before, after = body.get("subject") or "", body.get("from"), body.get("to")
    match FactKind(body["kind"]):
        case FactKind.STARTED:
            return "●", "started"
        case FactKind.COMMAND:
            return "→", f"{subject}: {_asked(detail)}"
        case FactKind.ANSWER:
            return "←", f"{_plain(subject)}: {_answered(detail)}{_data(body.get('output'))}"
        case FactKind.STATUS:
            return "■", f"{before} → {after}"
        case FactKind.ABORT if after is None:
            return "↻", f"goes forward again: {_plain(subject)} succeeded after all"
        case FactKind.ABORT:
            return "↩", f"turns back: {after} ({_plain(subject)})"
        case FactKind.PLAN:
            members = ", ".join(detail.get("members", ())) or "nothing"
            return "≡", f"plan {detail.get('version', 1)} frozen, to undo: {members}"
        case FactKind.DEADLINE:
            return "⏱", f"{_plain(subject) or 'saga'}: {_words(after)}"
        case FactKind.REASON if after is None:
            return "✓", f"{_plain(subject)}: {before} is settled"
        case FactKind.REASON:
            return "!", f"{_plain(subject)}: needs a person, {after}"
        case FactKind.BRANCH:
            return "⑂", f"{subject}: takes {after}"
        case FactKind.CONTROL:
            return "‖", f"{before} → {after}"
        case FactKind.ATTESTED:
            return "✎", f"{_plain(subject)}: attested {after} ({detail.get('evidence', '')})"
        case FactKind.STATE:
            return "·", f"{_plain(subject)}: {before} → {after}"
        case FactKind.WAKEUP:
            return "·", f"wake-up {before} delivered"


def _asked(detail: Mapping[str, Any]) -> str:
    target = f" of {detail['target']}" if detail.get("target") else ""
    return f"{detail['phase']}{target} #{detail['attempt']}"


def _answered(detail: Mapping[str, Any]) -> str:
    parts = [detail["status"]]
    if detail.get("terminal_status"):
        parts.append(f"({detail['terminal_status']})")
    parts.append(f"to {_asked(detail)}")
    if detail.get("reason_code"):
        parts.append(f"· {detail['reason_code']}")
    if detail.get("move") == Move.NOTE:
        parts.append("· noted only")
    return " ".join(parts)


def _data(output: Mapping[str, Any] | None) -> str:
    if output is None or "data" not in output:
        return ""
    text = json.dumps(output["data"], ensure_ascii=False)
    return f"  {text if len(text) <= _MAX_DATA else text[:_MAX_DATA] + '…'}"


def _by_whom(body: Mapping[str, Any]) -> str:
    if not body.get("actor"):
        return ""
    return f"  (by {body['actor']}: {body.get('reason', '')})"


def _plain(subject: str) -> str:
    return subject.partition(":")[2] or subject


def _words(code: str | None) -> str:
    return (code or "").replace("_", " ").replace(":", " ").lower()
