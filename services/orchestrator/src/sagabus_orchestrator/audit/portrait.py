"""What the facts of a saga say of it, to be held against its snapshot. Pure.

Not a replay: facts hold neither the start's payload nor the variables, and the engine may learn to
decide otherwise, while what it has decided is told by facts for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sagabus_core.engine import FactKind, ForwardState, MemberState, Snapshot
from sagabus_core.engine.snapshot import Track
from sagabus_core.vocabulary import Control, Phase, SagaStatus
from sagabus_messages import parse_instant

__all__ = ["Done", "Portrait"]

_ANY = frozenset({"saga:cancel", "saga:retry"})


@dataclass(frozen=True, slots=True)
class Done:
    """A management operation that a journal tells of; `kinds`: what the audit may call it."""

    revision: int
    operation_id: str
    actor: str
    reason: str
    kinds: frozenset[str]


@dataclass(slots=True)
class Portrait:
    """A saga as its facts describe it, while they are read in order.

    `announced`: by revision that changed the status, when (ms): each was published with its head.
    """

    started_ms: int | None = None
    changed_ms: int = 0
    status: str = ""
    control: str = Control.ACTIVE
    abort: tuple[str, str] | None = None
    plan: tuple[int, str, tuple[str, ...]] | None = None
    deadline_passed: bool = False
    announced: dict[int, int] = field(default_factory=dict)
    done: list[Done] = field(default_factory=list)
    _revision: int = 0
    _status_before: str = ""
    _states: dict[str, str] = field(default_factory=dict)
    _attempts: dict[tuple[str, str, str | None], int] = field(default_factory=dict)
    _successes: dict[str, int] = field(default_factory=dict)
    _next_success: int = 1
    _branches: dict[str, str] = field(default_factory=dict)
    _reasons: dict[str, str] = field(default_factory=dict)

    def take(self, revision: int, fact: Mapping[str, Any]) -> None:
        """Take the next fact. Raises `LookupError`, `TypeError` or `ValueError` for no fact."""
        kind, subject, after = FactKind(fact["kind"]), fact.get("subject"), fact.get("to")
        if revision != self._revision:
            self._begin(revision, fact)
        self.changed_ms = parse_instant(fact["at"])
        match kind:
            case FactKind.STARTED:
                self.started_ms, self.status = self.changed_ms, after or ""
                self.announced[revision] = self.changed_ms
            case FactKind.STATUS:
                self.status = after or ""
                self._announce(revision)
            case FactKind.CONTROL:
                self.control = after or ""
            case FactKind.ABORT:
                self.abort = (after, str(subject)) if after else None
            case FactKind.PLAN:
                self._freeze(after or "", fact["detail"])
            case FactKind.DEADLINE:
                self.deadline_passed |= subject is None
            case _:
                self._take_part(kind, str(subject), after, fact.get("detail") or {})

    def _take_part(
        self, kind: FactKind, subject: str, after: str | None, detail: Mapping[str, Any]
    ) -> None:
        """Take a fact about a part of the saga; answers and wake-ups by themselves change none."""
        match kind:
            case FactKind.STATE:
                self._set_state(subject, after or "")
            case FactKind.COMMAND:
                self._issue(subject, after or "", detail)
            case FactKind.BRANCH:
                self._branches[subject] = after or ""
            case FactKind.REASON:
                self._reasons.pop(subject, None)
                self._reasons |= {subject: after} if after else {}
            case _:
                pass

    def differences(self, saga: Snapshot) -> Iterator[str]:
        """Name what a snapshot tells otherwise."""
        told: dict[str, tuple[object, object]] = {
            "status": (self.status, saga.status.value),
            "control": (self.control, saga.control.value),
            "abort": (self.abort, _pair(saga)),
            "plan": (self.plan, _plan(saga)),
            "deadline": (self.deadline_passed, saga.deadline_passed),
            "branches": (self._branches, dict(saga.branches)),
            "reasons": (self._reasons, {k: str(v) for k, v in saga.reasons.items()}),
            "states": (self._states, {k: str(t.state) for k, t in _tracks(saga)}),
            "attempts": (self._attempts, _attempts(saga)),
            "successes": (self._successes, _successes(saga)),
        }
        for name, (expected, found) in told.items():
            if expected != found:
                yield f"{name} {_first(expected, found)}"

    def _begin(self, revision: int, fact: Mapping[str, Any]) -> None:
        self._revision, self._status_before = revision, self.status
        if fact["trigger_kind"] == "operation":
            told = (fact["trigger_id"], fact["actor"], fact["reason"])
            self.done.append(Done(revision, *told, _kinds(fact)))

    def _announce(self, revision: int) -> None:
        """Note a change, unless the revision ends with the status that it began with."""
        self.announced.pop(revision, None)
        if self.status != self._status_before:
            self.announced[revision] = self.changed_ms

    def _set_state(self, key: str, state: str) -> None:
        self._states[key] = state
        kind, _, path = key.partition(":")
        if kind != "activation":
            return
        self._successes.pop(path, None)  # an operator may record that it had not succeeded
        if state == ForwardState.SUCCEEDED:
            self._successes[path] = self._next_success
            self._next_success += 1

    def _issue(self, path: str, state: str, detail: Mapping[str, Any]) -> None:
        phase, target = str(detail["phase"]), detail.get("target")
        undoing = Phase.COMPENSATE in (phase, target)
        key = f"{'member' if undoing else 'activation'}:{path}"
        self._states[key] = state
        self._attempts[key, phase, target] = int(detail["attempt"])

    def _freeze(self, digest: str, detail: Mapping[str, Any]) -> None:
        members = tuple(map(str, detail["members"]))
        self.plan = (int(detail["version"]), digest, members)
        for path in members:
            self._states.setdefault(f"member:{path}", MemberState.PENDING)


def _kinds(first: Mapping[str, Any]) -> frozenset[str]:
    match first["kind"], first.get("to"):
        case FactKind.CONTROL, Control.PAUSED:
            return frozenset({"saga:pause"})
        case FactKind.CONTROL, _:
            return frozenset({"saga:resume"})
        case FactKind.ATTESTED, _:
            return frozenset({"saga:record-outcome"})
        case FactKind.STATUS, SagaStatus.MANUALLY_CLOSED:
            return frozenset({"saga:close"})
        case _:
            return _ANY


def _tracks(saga: Snapshot) -> Iterator[tuple[str, Track]]:
    yield from ((f"activation:{path}", track) for path, track in saga.activations.items())
    yield from ((f"member:{path}", track) for path, track in saga.members.items())


def _attempts(saga: Snapshot) -> dict[tuple[str, str, str | None], int]:
    return {
        (key, channel.phase.value, channel.target.value if channel.target else None): attempts
        for key, track in _tracks(saga)
        for channel, attempts in track.attempts.items()
    }


def _successes(saga: Snapshot) -> dict[str, int]:
    return {
        path: activation.success_sequence
        for path, activation in saga.activations.items()
        if activation.success_sequence is not None
    }


def _pair(saga: Snapshot) -> tuple[str, str] | None:
    return None if saga.abort is None else (saga.abort.reason, saga.abort.cause)


def _plan(saga: Snapshot) -> tuple[int, str, tuple[str, ...]] | None:
    plan = saga.plan
    return None if plan is None else (plan.version, plan.digest, plan.members)


def _first(expected: object, found: object) -> str:
    """Return the first difference of two values as text."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in (*expected, *found):
            if expected.get(key) != found.get(key):
                name = key if isinstance(key, str) else " ".join(filter(None, key))
                return f"of {name}: facts say {expected.get(key)}, it is {found.get(key)}"
    return f"facts say {expected}, it is {found}"
