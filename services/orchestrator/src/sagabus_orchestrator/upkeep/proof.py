"""What moves a saga next: every one that is not at its end must have something. Pure.

An answer that is awaited has a deadline, a retry has its time, and the earliest of them is covered
by the armed time, on which the timer and, behind it, the sweep act. PAUSED and MANUAL wait lawfully
for a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sagabus_core.engine import Snapshot
from sagabus_core.engine.deadlines import EARLY_REARM_MS, earliest_deadline, live_tracks
from sagabus_core.vocabulary import Control

__all__ = ["OVERDUE_MS", "Columns", "Defect", "Fault", "Waiting", "defect_of", "drift", "waits_for"]

OVERDUE_MS: Final = 60_000
"""How late an armed time may be before it counts as forgotten by the timer and the sweep."""


class Fault(StrEnum):
    """Why nothing would ever move a saga, or why that cannot be told."""

    NOT_ARMED = "not_armed"
    ARMED_TOO_LATE = "armed_too_late"
    OVERDUE = "overdue"
    NO_DEADLINE = "no_deadline"
    NOTHING_OPEN = "nothing_open"
    COLUMNS_DIFFER = "columns_differ"
    DEFERRED_UNAPPLIED = "deferred_unapplied"
    UNREADABLE = "unreadable"


class Waiting(StrEnum):
    """What a saga that is not at its end waits for."""

    MACHINE = "machine"
    PAUSED = "paused"
    MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Defect:
    """A fault of one saga, with a sentence for people."""

    fault: Fault
    detail: str


@dataclass(frozen=True, slots=True)
class Columns:
    """What the table repeats of a snapshot, for its indexes."""

    status: str
    control: str
    revision: int
    armed_at_ms: int | None


def waits_for(control: str, status: str) -> Waiting:
    """Return what a saga of this control and status waits for."""
    if control == Control.PAUSED:
        return Waiting.PAUSED
    return Waiting.MANUAL if status == "MANUAL_INTERVENTION" else Waiting.MACHINE


def drift(saga: Snapshot, columns: Columns) -> Defect | None:
    """Return how the columns of a row differ from its snapshot, which alone is the truth."""
    true = Columns(saga.status, saga.control, saga.revision, saga.armed_at_ms)
    if columns == true:
        return None
    differing = [
        f"{name} is {getattr(columns, name)}, not {getattr(true, name)}"
        for name in Columns.__slots__
        if getattr(columns, name) != getattr(true, name)
    ]
    return Defect(Fault.COLUMNS_DIFFER, "; ".join(differing))


def defect_of(saga: Snapshot, now_ms: int, overdue_ms: int = OVERDUE_MS) -> Defect | None:
    """Return why nothing will move this saga, or None: it is at its end, held, or obliged."""
    if saga.status.is_terminal or saga.reasons or saga.control is Control.PAUSED:
        return None
    live = live_tracks(saga)
    if not live:
        return Defect(Fault.NOTHING_OPEN, "no step is open and no next one was begun")
    idle = [p for p, track in live if track.deadline_at_ms is None and track.retry_at_ms is None]
    if idle:
        return Defect(Fault.NO_DEADLINE, f"nobody is asked, and nothing due: {', '.join(idle)}")
    return _defect_of_wakeup(saga, now_ms, overdue_ms)


def _defect_of_wakeup(saga: Snapshot, now_ms: int, overdue_ms: int) -> Defect | None:
    armed, due = saga.armed_at_ms, earliest_deadline(saga, saga.deadline_at_ms)
    if armed is None:
        return Defect(Fault.NOT_ARMED, "no wake-up is armed although deadlines run")
    if due is not None and armed > due + EARLY_REARM_MS and armed > now_ms + EARLY_REARM_MS:
        return Defect(Fault.ARMED_TOO_LATE, f"armed {armed - due} ms after the earliest deadline")
    if armed < now_ms - overdue_ms:
        return Defect(Fault.OVERDUE, f"the armed time passed {now_ms - armed} ms ago")
    return None
