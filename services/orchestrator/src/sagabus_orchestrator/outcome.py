"""What a transaction did, for metrics and logs after its commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from sagabus_orchestrator.entry import Entry
from sagabus_orchestrator.starts import StartAnswer
from sagabus_orchestrator.works import Rejected, ResultWork

__all__ = ["Outcome"]


@dataclass(slots=True)
class Outcome:
    """Sagas that were in hand, and what became of messages that changed none.

    `results`: those that reached their saga; `refused`: starts, by the code that they were given;
    `deferred`: of paused sagas; `early`: kept until their command is issued again; `answers`: one
    for each start that was claimed.
    """

    entries: Sequence[Entry] = ()
    repeats: int = 0
    results: list[ResultWork] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    rejected: list[Rejected] = field(default_factory=list)
    deferred: list[ResultWork] = field(default_factory=list)
    early: list[ResultWork] = field(default_factory=list)
    answers: list[StartAnswer] = field(default_factory=list)
