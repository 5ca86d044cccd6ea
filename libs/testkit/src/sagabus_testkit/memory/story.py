"""What happened, line by line: the engine's facts, the handlers' calls, the network's faults."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sagabus_core.engine import FactKind, JournalFact
from sagabus_core.engine.table import Move
from sagabus_messages import json_value

__all__ = ["Line", "Story", "line_of_fact"]

_MAX_DATA: Final = 100


@dataclass(frozen=True, slots=True)
class Line:
    """What happened so long after the saga began; `mark` is one character."""

    after_ms: int
    mark: str
    text: str

    def __str__(self) -> str:
        return f"{self.after_ms / 1000:+10.3f}  {self.mark} {self.text}"


class Story:
    """The lines of every saga."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._began_ms: dict[str, int] = {}
        self._lines: defaultdict[str, list[Line]] = defaultdict(list)

    def tell(self, saga_id: str, mark: str, text: str) -> None:
        """Add a line."""
        now_ms = self._clock()
        began_ms = self._began_ms.setdefault(saga_id, now_ms)
        self._lines[saga_id].append(Line(now_ms - began_ms, mark, text))

    def tell_facts(self, saga_id: str, facts: Iterable[JournalFact]) -> None:
        """Add a line for each fact that people care about."""
        for fact in facts:
            told = line_of_fact(fact)
            if told is not None:
                self.tell(saga_id, *told)

    def of(self, saga_id: str) -> tuple[Line, ...]:
        """Return the lines of a saga."""
        return tuple(self._lines[saga_id])


def line_of_fact(fact: JournalFact) -> tuple[str, str] | None:
    """Return mark and text of a fact; None for what follows from others."""
    teller = _TELLERS.get(fact.kind)
    return None if teller is None else teller(fact)


def data_of(value: object) -> str:
    """Return data as short text behind a sentence."""
    if value is None:
        return ""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return f"  {text if len(text) <= _MAX_DATA else text[:_MAX_DATA] + '…'}"


def _asked(detail: Mapping[str, Any]) -> str:
    target = f" of {detail['target']}" if detail.get("target") else ""
    return f"{detail['phase']}{target} #{detail['attempt']}"


def _answer(fact: JournalFact) -> tuple[str, str]:
    detail = fact.detail or {}
    terminal = f" ({detail['terminal_status']})" if detail.get("terminal_status") else ""
    reason = f" · {detail['reason_code']}" if detail.get("reason_code") else ""
    noted = " · noted only" if detail.get("move") == Move.NOTE else ""
    given = json_value(fact.output) if fact.output is not None and fact.output.is_json else None
    said = f"{_plain(fact)}: {detail['status']}{terminal} to {_asked(detail)}{reason}{noted}"
    return "←", said + data_of(given)


def _abort(fact: JournalFact) -> tuple[str, str]:
    if fact.after is None:
        return "↻", f"goes forward again: {fact.subject} succeeded after all"
    return "↩", f"turns back: {fact.after} ({fact.subject})"


def _reason(fact: JournalFact) -> tuple[str, str]:
    if fact.after is None:
        return "✓", f"{_plain(fact)}: {fact.before} is settled"
    return "!", f"{_plain(fact)}: needs a person, {fact.after}"


def _plan(fact: JournalFact) -> tuple[str, str]:
    members = (fact.detail or {}).get("members")
    named = ", ".join(str(each) for each in members) if isinstance(members, list | tuple) else ""
    return "≡", f"plan frozen, to undo: {named or 'nothing'}"


def _deadline(fact: JournalFact) -> tuple[str, str]:
    words = (fact.after or "").replace("_", " ").replace(":", " ").lower()
    return "⏱", f"{_plain(fact) or 'saga'}: {words}"


def _plain(fact: JournalFact) -> str:
    subject = fact.subject or ""
    return subject.partition(":")[2] or subject


_TELLERS: Final[Mapping[FactKind, Callable[[JournalFact], tuple[str, str]]]] = {
    FactKind.STARTED: lambda _: ("●", "started"),
    FactKind.COMMAND: lambda fact: ("→", f"{fact.subject}: {_asked(fact.detail or {})}"),
    FactKind.ANSWER: _answer,
    FactKind.STATUS: lambda fact: ("■", f"{fact.before} → {fact.after}"),
    FactKind.ABORT: _abort,
    FactKind.PLAN: _plan,
    FactKind.DEADLINE: _deadline,
    FactKind.REASON: _reason,
    FactKind.BRANCH: lambda fact: ("⑂", f"{fact.subject}: takes {fact.after}"),
    FactKind.CONTROL: lambda fact: ("‖", f"{fact.before} → {fact.after}"),
    FactKind.ATTESTED: lambda fact: ("✎", f"{fact.subject}: attested {fact.after}"),
}
"""Left out: the state of a step, which follows from its answers, and delivered wake-ups."""
