"""A journal as a story: one line per fact that people care about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeAlias

from sagabus_core.engine import FactKind
from sagabus_core.engine.table import Move

__all__ = ["Line", "timeline"]

_QUIET: Final = frozenset({FactKind.STATE, FactKind.WAKEUP})
"""Facts that follow from others: the state of a step from its answers, wake-ups from deadlines."""
_MAX_DATA: Final = 120


@dataclass(frozen=True, slots=True)
class _Said:
    """The members of a fact."""

    subject: str
    before: str | None
    after: str | None
    detail: Mapping[str, Any]
    output: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class Line:
    """What happened `after_ms` after the first fact; `mark` is one character."""

    at: str
    after_ms: int
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.after_ms / 1000:+9.3f}  {self.mark} {self.text}"


def timeline(facts: Iterable[Mapping[str, Any]], *, everything: bool = False) -> list[Line]:
    """Return the lines of a journal in order; `everything` tells the derived facts too."""
    lines: list[Line] = []
    begin: datetime | None = None
    for body in facts:
        at = datetime.fromisoformat(body["at"])
        begin = begin or at
        if body["kind"] in _QUIET and not everything:
            continue
        mark, text = _told(body)
        after_ms = round((at - begin).total_seconds() * 1000)
        lines.append(Line(body["at"], after_ms, mark, text + _by_whom(body)))
    return lines


def _told(body: Mapping[str, Any]) -> tuple[str, str]:
    said = _Said(
        _plain(body.get("subject") or ""),
        body.get("from"),
        body.get("to"),
        body.get("detail") or {},
        body.get("output"),
    )
    kind = FactKind(body["kind"])
    if said.after is None and kind in _TAKEN_BACK:
        mark, tell = _TAKEN_BACK[kind]
    else:
        mark, tell = _TOLD[kind]
    return mark, tell(said)


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


def _planned(said: _Said) -> str:
    members = ", ".join(said.detail.get("members", ())) or "nothing"
    return f"plan {said.detail.get('version', 1)} frozen, to undo: {members}"


def _changed(said: _Said) -> str:
    return f"{said.before} → {said.after}"


_Teller: TypeAlias = Callable[[_Said], str]
_TOLD: Final[Mapping[FactKind, tuple[str, _Teller]]] = {
    FactKind.STARTED: ("●", lambda _: "started"),
    FactKind.COMMAND: ("→", lambda s: f"{s.subject}: {_asked(s.detail)}"),
    FactKind.ANSWER: ("←", lambda s: f"{s.subject}: {_answered(s.detail)}{_data(s.output)}"),
    FactKind.STATUS: ("■", _changed),
    FactKind.ABORT: ("↩", lambda s: f"turns back: {s.after} ({s.subject})"),
    FactKind.PLAN: ("≡", _planned),
    FactKind.DEADLINE: ("⏱", lambda s: f"{s.subject or 'saga'}: {_words(s.after)}"),
    FactKind.REASON: ("!", lambda s: f"{s.subject}: needs a person, {s.after}"),
    FactKind.BRANCH: ("⑂", lambda s: f"{s.subject}: takes {s.after}"),
    FactKind.CONTROL: ("‖", _changed),
    FactKind.ATTESTED: (
        "✎",
        lambda s: f"{s.subject}: attested {s.after} ({s.detail.get('evidence', '')})",
    ),
    FactKind.STATE: ("·", lambda s: f"{s.subject}: {_changed(s)}"),
    FactKind.WAKEUP: ("·", lambda s: f"wake-up {s.before} delivered"),
}
_TAKEN_BACK: Final[Mapping[FactKind, tuple[str, _Teller]]] = {
    FactKind.ABORT: ("↻", lambda s: f"goes forward again: {s.subject} succeeded after all"),
    FactKind.REASON: ("✓", lambda s: f"{s.subject}: {s.before} is settled"),
}
