"""The real engine behind small integers: every decision is made once, judged, and remembered."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic, TypeAlias, TypeVar

from tests.model.clock import NOW, WEAK, Due, canonical_key, dues, normal, with_due
from tests.model.messages import Answer, Command, as_result
from tests.model.truth import misjudged

from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    AttestedBranch,
    AttestedOutcome,
    AttestedOutput,
    AttestedUndo,
    Cancel,
    Decision,
    Event,
    ForwardState,
    ManualClose,
    MemberState,
    Metric,
    MetricName,
    Operation,
    Pause,
    RecordOutcome,
    Resume,
    Retry,
    Snapshot,
    StartRequest,
    Sweep,
    WakeupDelivered,
    decide,
    from_json,
    start,
    to_json,
)
from sagabus_core.engine.invariants import violations
from sagabus_core.engine.snapshot import OPEN_STATES
from sagabus_core.engine.vocabulary import UNDO_CHANNELS
from sagabus_core.errors import OperationRefused, SagabusError
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Control

__all__ = ["Act", "Engine", "Happening", "Interner", "Outcome"]

_T = TypeVar("_T", bound=Hashable)
_SKEW_MS: Final = 60_000
OPEN: Final = {*OPEN_STATES, MemberState.PENDING, MemberState.COMPENSATING, MemberState.RESOLVING}


class Interner(Generic[_T]):
    """Gives equal values the same small integer."""

    def __init__(self) -> None:
        self.ids: dict[_T, int] = {}
        self.values: list[_T] = []

    def __call__(self, value: _T) -> int:
        found = self.ids.get(value)
        if found is None:
            found = self.ids[value] = len(self.values)
            self.values.append(value)
        return found


@dataclass(frozen=True, slots=True)
class Act:
    """What is no message: the wake-up, or an operation (`name` serves as its id).

    `subject` and `said` are what record_outcome is about; `expired` says that every EXECUTE of
    the subject is known to have expired, by more than the clock skew.
    """

    kind: str
    name: str = ""
    subject: str = ""
    said: str = ""
    expired: bool = False

    def __str__(self) -> str:
        what = f" {self.subject} {self.said}" if self.subject else ""
        return f"{self.kind}{what}{' (all expired)' if self.expired else ''}"


Happening: TypeAlias = Answer | Act


@dataclass(frozen=True, slots=True)
class Outcome:
    """One possible decision: what had passed, the next snapshot, what was issued, what is wrong."""

    due: Due
    snapshot: int
    commands: tuple[Command, ...]
    problems: tuple[str, ...]


@dataclass(slots=True)
class Engine:
    """One definition under `decide`, with the outputs that its participants report."""

    definition: Definition
    request: StartRequest
    outputs: Mapping[str, Payload] = field(default_factory=dict)
    exact: bool = True
    snapshots: list[Snapshot] = field(default_factory=list)
    decisions: int = 0
    _ids: dict[tuple[object, ...], int] = field(default_factory=dict)
    _memo: dict[tuple[int, Happening], tuple[Outcome, ...]] = field(default_factory=dict)

    def begin(self) -> Outcome:
        """Return the start."""
        return self._judge((), None, lambda: start(self.definition, self.request, NOW))

    def outcomes(self, number: int, happening: Happening) -> tuple[Outcome, ...]:
        """Return what a happening can lead to; an operation that is refused leads nowhere."""
        found = self._memo.get((number, happening))
        if found is None:
            found = self._memo[number, happening] = self._decide_all(number, happening)
        return found

    def is_spent(self, number: int, answer: Answer) -> bool:
        """Whether an answer can never change anything: taken before, an old hint, or agreeing."""
        snapshot = self.snapshots[number]
        forward = answer.channel not in UNDO_CHANNELS
        track = (snapshot.activations if forward else snapshot.members).get(answer.path)
        if track is None:
            return False
        taken = track.answers.get(f"{answer.channel.value}{answer.attempt}", "").split("+")
        if answer.word in taken:
            return True
        late = answer.attempt < track.attempts.get(answer.channel, 0) and answer.word in WEAK
        if snapshot.control is Control.PAUSED or (track.state in OPEN and not late):
            return False
        outcomes = self.outcomes(number, answer)
        return [(o.snapshot, o.commands, o.problems) for o in outcomes] == [(number, (), ())]

    def _decide_all(self, number: int, happening: Happening) -> tuple[Outcome, ...]:
        snapshot = self.snapshots[number]
        wake = isinstance(happening, Act) and happening.kind == "wake"
        held = bool(snapshot.reasons) or snapshot.control is Control.PAUSED
        results: dict[object, Outcome] = {}
        for due in dues(snapshot) if wake or held else ((),):
            outcome = self._decide(snapshot, happening, due)
            if outcome is not None:
                key = (outcome.snapshot, outcome.commands, outcome.problems)
                results.setdefault(key, outcome)
        return tuple(results.values())

    def _decide(self, snapshot: Snapshot, happening: Happening, due: Due) -> Outcome | None:
        before = with_due(snapshot, due)
        if isinstance(happening, Act) and happening.expired:
            before = _expire(before, happening.subject)
        event = self._event(before, happening)
        try:
            outcome = self._judge(due, before, lambda: decide(self.definition, before, event, NOW))
        except OperationRefused:
            return None
        if isinstance(happening, Answer):
            retriable = self.definition.nodes[happening.path].step.retriable
            after = self.snapshots[outcome.snapshot]
            wrong = misjudged(before, after, happening, retriable=retriable)
            outcome = replace(outcome, problems=(*outcome.problems, *wrong))
        if isinstance(event, WakeupDelivered) and due and not outcome.problems:
            swept = decide(self.definition, before, Sweep("sweep"), NOW)
            if self._number(swept.snapshot)[0] != outcome.snapshot:
                return replace(outcome, problems=(*outcome.problems, "SWEEP differs from wake-up"))
        return outcome

    def _event(self, snapshot: Snapshot, happening: Happening) -> Event:
        if isinstance(happening, Answer):
            return as_result(happening, self.outputs.get(happening.path))
        operation = Operation(happening.name, "operator", "model")
        match happening.kind:
            case "wake":
                return WakeupDelivered("wake", snapshot.generation)
            case "pause":
                return Pause(operation)
            case "resume":
                return Resume(operation)
            case "cancel":
                return Cancel(operation)
            case "retry":
                return Retry(operation)
            case "close":
                return ManualClose(operation)
            case _:
                return RecordOutcome(operation, self._attest(happening), "seen", _SKEW_MS)

    def _attest(self, act: Act) -> AttestedOutcome | AttestedUndo | AttestedBranch | AttestedOutput:
        match act.kind:
            case "attest":
                outcome = ForwardState(act.said)
                output = self.outputs.get(act.subject) if act.said == "SUCCEEDED" else None
                return AttestedOutcome(act.subject, outcome, output)
            case "attest undo":
                return AttestedUndo(act.subject, act.said == "happened")
            case "attest branch":
                return AttestedBranch(act.subject, act.said)
            case _:
                contract = self.definition.nodes[act.subject].step.output
                if contract is None:
                    raise ValueError(act)
                body = act.said.encode()
                return AttestedOutput(
                    act.subject, Payload(contract.content_type, contract.schema_id, body)
                )

    def _judge(self, due: Due, before: Snapshot | None, make: Callable[[], Decision]) -> Outcome:
        self.decisions += 1
        try:
            decision = make()
        except OperationRefused:
            raise
        except (SagabusError, LookupError, TypeError, ValueError, AttributeError) as error:
            number = -1 if before is None else self._number(before)[0]
            return Outcome(due, number, (), (f"RAISED {type(error).__name__}: {error}",))
        problems = violations(self.definition, before, decision, NOW)
        problems += [
            f"CONFLICT {effect.label}"
            for effect in decision.effects
            if isinstance(effect, Metric) and effect.name is MetricName.CONFLICT
        ]
        number, new = self._number(decision.snapshot)
        if new:
            problems += self._examine(self.snapshots[number])
        commands = tuple(
            Command(c.activation, c.channel, c.attempt, c.recovery_operation_id)
            for c in decision.commands
        )
        return Outcome(due, number, commands, tuple(problems))

    def _number(self, snapshot: Snapshot) -> tuple[int, bool]:
        plain = normal(snapshot, exact=self.exact)
        key = canonical_key(plain)
        number = self._ids.get(key)
        if number is not None:
            return number, False
        number = self._ids[key] = len(self.snapshots)
        self.snapshots.append(plain)
        return number, True

    def _examine(self, snapshot: Snapshot) -> list[str]:
        """Re-deliver everything that it ever took (I10, I13), and store and load it."""
        problems = []
        for answer in _taken(snapshot):
            event = as_result(answer, self.outputs.get(answer.path))
            if not decide(self.definition, snapshot, event, NOW).absorbed:
                problems.append(f"I13 {answer} was applied twice")
        old = WakeupDelivered("old", snapshot.generation - 1)
        if not decide(self.definition, snapshot, old, NOW).absorbed:
            problems.append("I13 a wake-up of an old generation was applied")
        if from_json(json.loads(json.dumps(to_json(snapshot)))) != snapshot:
            problems.append("CODEC the stored form differs")
        return problems


def _taken(snapshot: Snapshot) -> list[Answer]:
    return [
        Answer(path, channel, attempt, word)
        for tracks in (snapshot.activations, snapshot.members)
        for path, track in tracks.items()
        for channel, attempts in track.attempts.items()
        for attempt in range(1, attempts + 1)
        for word in track.answers.get(f"{channel.value}{attempt}", "").split("+")
        if word
    ]


def _expire(snapshot: Snapshot, path: str) -> Snapshot:
    activation = snapshot.activations.get(path)
    if activation is None:
        return snapshot
    gone = activation._replace(execute_expires_at_ms=NOW - _SKEW_MS - 1)
    return snapshot._replace(activations={**snapshot.activations, path: gone})
