"""Turns the facts about one saga into points for people and one line: what would move it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sagabus_core.engine import EXITS, Channel
from sagabus_core.vocabulary import Control
from sagabus_orchestrator.why.facts import Asked, Facts, Place, Record, Told

__all__ = ["Explanation", "Point", "explain"]

_SENDING_MS: Final = 5_000
"""A record that waits longer than this is not simply on its way."""
_SOON_MS: Final = 10_000
_NEXT: Final = {
    Channel.EXECUTE: "it is cancelled, resolved or repeated, as its step declares",
    Channel.CANCEL: "CANCEL is repeated, or a person is asked",
    Channel.COMPENSATE: "COMPENSATE is repeated, or a person is asked",
    Channel.RESOLVE_EXECUTE: "RESOLVE is repeated, or a person is asked",
    Channel.RESOLVE_COMPENSATE: "RESOLVE is repeated, or a person is asked",
}


@dataclass(frozen=True, slots=True)
class Point:
    """One thing that is known: a stable topic for programs, a sentence for people."""

    about: str
    text: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why a saga stands where it stands; `waits_for` is one stable word for programs."""

    waits_for: str
    points: tuple[Point, ...]
    moved_by: str


def explain(facts: Facts) -> Explanation:
    """Return the points in reading order, and what would move the saga."""
    waits_for, moved_by = _moved_by(facts)
    return Explanation(waits_for, tuple(_points(facts)), moved_by)


def _points(facts: Facts) -> Iterator[Point]:
    saga = facts.saga
    if facts.archived_at is not None:
        yield Point("archive", f"in the archive since {facts.archived_at:%Y-%m-%d %H:%M:%S}")
    if saga.control is Control.PAUSED:
        yield from _paused(facts.paused)
    for key, reason in saga.reasons.items():
        exits = ", ".join(sorted(EXITS[reason]))
        yield Point("manual", f"needs a person: {reason} ({key}); ways out: {exits}")
    for item in facts.asked:
        yield from _about(item, facts)
    if facts.deferred:
        since = f" since {facts.deferred_since_at:%H:%M:%S}" if facts.deferred_since_at else ""
        yield Point("deferred", f"{facts.deferred} answers are kept for the resume{since}")
    if not saga.status.is_terminal:
        yield _wakeup(facts)
    for record in facts.records:
        yield Point("outbox", _record(record, facts))
    for finding in facts.findings:
        state = "repaired" if finding.repaired else "OPEN"
        yield Point("finding", f"reconciler, {state}: {finding.fault}, {finding.detail}")
    if facts.bus.problem is not None:
        yield Point("kafka", f"Kafka not reachable: {facts.bus.problem}")


def _paused(told: Told | None) -> Iterator[Point]:
    by = f" by {told.actor} at {told.at:%Y-%m-%d %H:%M:%S}: {told.reason}" if told else ""
    if told is not None and told.hold is not None:
        yield Point("held", f"{told.hold} is held: what it would have issued was kept back")
    yield Point("paused", f"paused{by}")


def _about(item: Asked, facts: Facts) -> Iterator[Point]:
    owner = item.participant or "an unknown participant"
    if item.retry_at_ms is not None:
        at = _when(item.retry_at_ms, facts.now_ms)
        yield Point("retry", f"{item.named} ended without success; the next attempt is due {at}")
        return
    deadline = f", due {_when(item.deadline_at_ms, facts.now_ms)}" if item.deadline_at_ms else ""
    yield Point("command", f"{item.named} is asked of {owner}{deadline}")
    if item.budget_at_ms is not None:
        yield Point("budget", f"it must be resolved {_when(item.budget_at_ms, facts.now_ms)}")
    for about, topics in (("command", facts.command_topics), ("result", facts.result_topics)):
        place = facts.bus.at(topics.get(item.path, ""))
        if place is not None:
            yield Point(f"{about}_topic", _place(place))


def _wakeup(facts: Facts) -> Point:
    saga = facts.saga
    if saga.armed_at_ms is None:
        return Point("wakeup", f"no wake-up is armed (generation {saga.generation})")
    when = _when(saga.armed_at_ms, facts.now_ms)
    return Point("wakeup", f"wake-up {saga.generation} is armed, due {when}")


def _record(record: Record, facts: Facts) -> str:
    asked = {item.command_id: item.named for item in facts.asked}
    what = asked.get(record.ce_id, "a record")
    if record.parked:
        return f"{what} to {record.topic} is parked: {record.reason}"
    place = facts.bus.at(record.topic)
    if place is not None and not place.exists:
        return f"{what} waits in the outbox: the topic {record.topic} is missing, the relay holds"
    return f"{what} waits in the outbox for {record.topic} since {record.since_at:%H:%M:%S}"


def _place(place: Place) -> str:
    if not place.exists:
        return f"{place.topic} does not exist"
    members = f"{place.members} live members" if place.members else "NO live member"
    committed = "nothing yet" if place.committed is None else str(place.committed)
    return (
        f"{place.topic} partition {place.partition}: read to {committed} of {place.end} "
        f"by {place.group}, {members}"
    )


def _moved_by(facts: Facts) -> tuple[str, str]:
    saga = facts.saga
    if saga.status.is_terminal:
        return "nothing", f"nothing: it ended {saga.status}"
    if saga.control is Control.PAUSED and facts.paused is not None and facts.paused.hold:
        return "release", f"sagabus hold release {facts.paused.hold} --reason ..."
    if saga.control is Control.PAUSED:
        return "resume", f"sagabus resume {saga.business_key} --reason ..."
    if saga.reasons:
        ways = frozenset.intersection(*(EXITS[reason] for reason in saga.reasons.values()))
        named = ", ".join(sorted(ways)) or "one way out for each reason"
        return "person", f"a person decides: {named} (sagabus show {saga.business_key} tells more)"
    broken = next((finding for finding in facts.findings if not finding.repaired), None)
    if broken is not None:
        return "repair", f"somebody mends what the reconciler could not: {broken.fault}"
    return _moved_by_machine(facts)


def _moved_by_machine(facts: Facts) -> tuple[str, str]:
    for record in facts.records:
        blocked = _blocked(record, facts)
        if blocked is not None:
            return blocked
    waiting = [item for item in facts.asked if item.retry_at_ms is None]
    for item in waiting:
        unread = _unread(item, facts)
        if unread is not None:
            return unread
    if waiting:
        return "answer", _answer(waiting[0], facts.now_ms)
    if facts.asked:
        first = min(item.retry_at_ms or 0 for item in facts.asked)
        return "retry", f"the wake-up of the next attempt, due {_when(first, facts.now_ms)}"
    return "repair", "the reconciler: nothing is open, although the saga is not at its end"


def _blocked(record: Record, facts: Facts) -> tuple[str, str] | None:
    if record.parked:
        return "redrive", f"a redrive of its parked records in {record.topic} ({record.reason})"
    place = facts.bus.at(record.topic)
    if place is not None and not place.exists:
        return "topic", f"creating the topic {record.topic}: the relay tries again by itself"
    waited_ms = facts.now_ms - int(record.since_at.timestamp() * 1000)
    if waited_ms < _SENDING_MS:
        return None
    return "relay", f"a relay that drains this outbox: {waited_ms / 1000:.0f} s are too long"


def _unread(item: Asked, facts: Facts) -> tuple[str, str] | None:
    command = facts.bus.at(facts.command_topics.get(item.path, ""))
    if command is not None and command.exists and command.unread:
        if not command.members:
            return "participant", f"starting {item.participant}: nobody reads {command.topic}"
        return "participant", f"{item.participant} reading its last {command.unread} commands"
    result = facts.bus.at(facts.result_topics.get(item.path, ""))
    if result is not None and result.exists and result.unread:
        if not result.members:
            return "orchestrator", f"starting an orchestrator: nobody reads {result.topic}"
        return "orchestrator", f"the orchestrator reading its last {result.unread} results"
    if command is not None and command.exists and not command.members:
        return "participant", f"starting {item.participant}: nobody reads {command.topic}"
    return None


def _answer(item: Asked, now_ms: int) -> str:
    answer = f"{item.participant}'s answer to {item.named}"
    if item.deadline_at_ms is None:
        return answer
    if item.deadline_at_ms < now_ms - _SOON_MS:
        return f"{answer}, or the sweep: its deadline passed, {_NEXT[item.channel]}"
    return f"{answer}; {_when(item.deadline_at_ms, now_ms)} {_NEXT[item.channel]}"


def _when(at_ms: int, now_ms: int) -> str:
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    away_s = (at_ms - now_ms) / 1000
    relative = f"in {away_s:.1f} s" if away_s >= 0 else f"{-away_s:.1f} s ago"
    return f"{relative} ({at:%Y-%m-%d %H:%M:%S})"
