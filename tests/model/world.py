"""The whole world of one saga: engine, participants, hostile network, operator.

A state is one integer that packs four small ones: the snapshot, the participants, the messages in
flight, and the rest (duplicates left, operations left, results deferred while PAUSED).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple, TypeAlias

from tests.model.messages import Answer, Command, Message
from tests.model.participants import Part, Participant, Traits, happened, undone
from tests.model.port import Act, Engine, Interner, Outcome
from tests.model.truth import untrue

from sagabus_core.definitions import Definition
from sagabus_core.engine import ManualReason, Snapshot, StartRequest
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Control, SagaStatus

__all__ = ["Rest", "Scenario", "Step", "World"]

_PARTS, _NET, _REST = 18, 20, 12
_WAKE = Act("wake")


@dataclass(frozen=True, slots=True)
class Scenario:
    """What is explored. `operations`: each may be used once; its kind is its name without digits.

    `participant` makes the participants: correct ones, except in the tests of the checker.
    """

    name: str
    definition: Definition
    traits: Mapping[str, Traits]
    operations: tuple[str, ...] = ()
    deadline: bool = False
    duplicates: int = 1
    in_flight: int = 2
    loss: bool = True
    exact: bool = False
    outputs: Mapping[str, Payload] = field(default_factory=dict)
    start_payload: Payload | None = None
    attested_output: str = ""
    participant: Callable[[Traits], Participant] = Participant


class Rest(NamedTuple):
    """What is left of the budgets, and what waits for the end of a pause."""

    duplicates: int
    operations: tuple[str, ...]
    deferred: tuple[Answer, ...] = ()


class Step(NamedTuple):
    """One move of the world: its label, where it leads, and what is wrong with it."""

    label: tuple[object, ...]
    state: int
    problems: tuple[str, ...]


_Net: TypeAlias = tuple[int, ...]
_Parts: TypeAlias = tuple[Part, ...]


class World:
    """All moves of a scenario. Everything below a state is memoised by its small integers."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        later = 2_000_000_000 if scenario.deadline else None
        request = StartRequest("t", "k", "start", later, scenario.start_payload)
        self.engine = Engine(scenario.definition, request, scenario.outputs, scenario.exact)
        self.paths = tuple(scenario.definition.nodes)
        self._actors = tuple(
            scenario.participant(scenario.traits[scenario.definition.nodes[path].step.name])
            for path in self.paths
        )
        self.parts: Interner[_Parts] = Interner()
        self.nets: Interner[_Net] = Interner()
        self.rests: Interner[Rest] = Interner()
        self.messages: Interner[Message] = Interner()
        self._adds: dict[tuple[int, tuple[Message, ...]], tuple[int, ...]] = {}
        self._replies: dict[tuple[int, int], list[tuple[int, Answer | None]]] = {}
        self._spent: dict[int, int] = {}
        self._forgets = not scenario.exact
        self._calls: dict[int, list[tuple[int, Answer]]] = {}
        self._truths: dict[int, tuple[str, ...]] = {}
        self._pairs: dict[int, list[tuple[int, int, Message]]] = {}

    # -- states ---------------------------------------------------------------------------------

    def pack(self, snapshot: int, parts: int, net: int, rest: int) -> int:
        """Return the state as one integer."""
        return ((snapshot << _PARTS | parts) << _NET | net) << _REST | rest

    def unpack(self, state: int) -> tuple[int, int, int, int]:
        """Return snapshot, participants, messages in flight, rest."""
        rest, state = state & (1 << _REST) - 1, state >> _REST
        net, state = state & (1 << _NET) - 1, state >> _NET
        return state >> _PARTS, state & (1 << _PARTS) - 1, net, rest

    def snapshot(self, state: int) -> Snapshot:
        """Return the snapshot of a state."""
        return self.engine.snapshots[state >> _PARTS + _NET + _REST]

    def start(self) -> list[Step]:
        """Return the first states."""
        outcome = self.engine.begin()
        rest = self.rests(Rest(self.scenario.duplicates, self.scenario.operations))
        parts = self.parts((Part(),) * len(self.paths))
        return list(self._land(("start",), outcome, parts, self.nets(()), rest))

    def problems(self, state: int) -> tuple[str, ...]:
        """Return what is untrue in a state: the engine's word against the participants' truth."""
        key = state >> _NET + _REST
        found = self._truths.get(key)
        if found is None:
            snapshot, parts, _, _ = self.unpack(state)
            found = untrue(
                self.scenario.definition,
                self.engine.snapshots[snapshot],
                dict(zip(self.paths, self.parts.values[parts], strict=True)),
            )
            self._truths[key] = found
        return found

    # -- moves ----------------------------------------------------------------------------------

    def moves(self, state: int) -> Iterator[Step]:
        """Yield everything that can happen next."""
        snapshot, parts, net, rest = self.unpack(state)
        yield from self._network(snapshot, parts, net, rest)
        for after, answer in self._callbacks(parts):
            for flying in self._add(net, (answer,)):
                yield Step(("call back", answer), self.pack(snapshot, after, flying, rest), ())
        held = self.engine.snapshots[snapshot]
        if held.armed_at_ms is not None and not held.status.is_terminal:
            for outcome in self.engine.outcomes(snapshot, _WAKE):
                yield from self._land((_WAKE, outcome.due), outcome, parts, net, rest)
        if self.rests.values[rest].operations or held.control is Control.PAUSED:
            yield from self._operate(snapshot, parts, net, rest)

    def _network(self, snapshot: int, parts: int, net: int, rest: int) -> Iterator[Step]:
        duplicates = self.rests.values[rest].duplicates
        for without, number, message in self._in_flight(net):
            if self.scenario.loss:
                yield Step(("lose", message), self.pack(snapshot, parts, without, rest), ())
            ways = [("deliver", without, rest)]
            if duplicates and (isinstance(message, Command) or not self._forgets):
                fewer = self.rests.values[rest]._replace(duplicates=duplicates - 1)
                ways.append(("deliver and keep", net, self.rests(fewer)))
            for how, left, after in ways:
                if isinstance(message, Command):
                    yield from self._to_participant(
                        (how, message), number, (snapshot, parts, left, after)
                    )
                else:
                    yield from self._to_engine(
                        (how, message), message, (snapshot, parts, left, after)
                    )

    def _to_participant(
        self, label: tuple[object, ...], number: int, at: tuple[int, int, int, int]
    ) -> Iterator[Step]:
        snapshot, parts, net, rest = at
        for after, reply in self._reply(parts, number):
            told = (*label, reply, self.parts.values[after])
            if reply is None or (self._forgets and self.engine.is_spent(snapshot, reply)):
                yield Step(told, self.pack(snapshot, after, net, rest), ())
                continue
            for flying in self._add(net, (reply,)):
                yield Step(told, self.pack(snapshot, after, flying, rest), ())

    def _to_engine(
        self, label: tuple[object, ...], answer: Answer, at: tuple[int, int, int, int]
    ) -> Iterator[Step]:
        snapshot, parts, net, rest = at
        if self.engine.snapshots[snapshot].control is Control.PAUSED:
            now = self.rests.values[rest]
            if len(now.deferred) < self.scenario.in_flight:
                deferred = self.rests(now._replace(deferred=(*now.deferred, answer)))
                yield Step(("defer", answer), self.pack(snapshot, parts, net, deferred), ())
            return
        for outcome in self.engine.outcomes(snapshot, answer):
            yield from self._land((*label, outcome.due), outcome, parts, net, rest)

    def _land(
        self, label: tuple[object, ...], outcome: Outcome, parts: int, net: int, rest: int
    ) -> Iterator[Step]:
        if self._forgets:
            net = self._without_spent(outcome.snapshot, net)
        for flying in self._add(net, outcome.commands):
            yield Step(label, self.pack(outcome.snapshot, parts, flying, rest), outcome.problems)

    def _without_spent(self, snapshot: int, net: int) -> int:
        """Take answers out of flight that can change nothing any more (I13 is tried by itself)."""
        key = snapshot << _NET | net
        found = self._spent.get(key)
        if found is None:
            kept = tuple(
                number
                for number in self.nets.values[net]
                if not isinstance(message := self.messages.values[number], Answer)
                or not self.engine.is_spent(snapshot, message)
            )
            found = self._spent[key] = self.nets(kept)
        return found

    # -- the operator ---------------------------------------------------------------------------

    def _operate(self, snapshot: int, parts: int, net: int, rest: int) -> Iterator[Step]:
        now = self.rests.values[rest]
        saga = self.engine.snapshots[snapshot]
        if saga.control is Control.PAUSED and not saga.status.is_terminal:
            yield from self._resume(snapshot, parts, net, rest)
        for name in now.operations:
            left = tuple(each for each in now.operations if each != name)
            after = self.rests(now._replace(operations=left))
            for act in self._acts(saga, name, self.parts.values[parts]):
                flying, known = net, parts
                if act.expired:
                    flying = self._without_executes(net, act.subject)
                if act.said == "SUCCEEDED":
                    known = self._mend(parts, act.subject)
                for outcome in self.engine.outcomes(snapshot, act):
                    yield from self._land((act, outcome.due), outcome, known, flying, after)

    def _resume(self, snapshot: int, parts: int, net: int, rest: int) -> Iterator[Step]:
        """In one transaction: apply what was deferred, in order, while PAUSED; then go on."""
        now = self.rests.values[rest]
        after = self.rests(now._replace(deferred=()))
        problems: tuple[str, ...] = ()
        for answer in now.deferred:
            (outcome, *more) = self.engine.outcomes(snapshot, answer)
            snapshot = outcome.snapshot
            problems += outcome.problems
            if more or outcome.commands:
                problems += (f"I9 the deferred {answer} acted while PAUSED",)
        for outcome in self.engine.outcomes(snapshot, Act("resume", "resume")):
            for step in self._land(("resume", outcome.due), outcome, parts, net, after):
                yield step._replace(problems=problems + step.problems)

    def _acts(self, saga: Snapshot, name: str, parts: _Parts) -> Iterator[Act]:
        kind = name.rstrip("0123456789")
        if kind != "record":
            yield Act(kind, name)
            return
        for path, part in zip(self.paths, parts, strict=True):
            activation = saga.activations.get(path)
            if activation is not None and activation.is_open:
                if happened(part):
                    yield Act("attest", name, path, "SUCCEEDED")
                else:
                    yield Act("attest", name, path, "REJECTED")
                    yield Act("attest", name, path, "REJECTED", expired=True)
            if f"member:{path}" in saga.reasons:
                said = "happened" if undone(part) else "did not happen"
                yield Act("attest undo", name, path, said)
            if saga.reasons.get(f"activation:{path}") is ManualReason.OUTPUT_CONTRACT_MISMATCH:
                yield Act("attest output", name, path, self.scenario.attested_output)
        for path, choice in self.scenario.definition.choices.items():
            if f"branch:{path}" in saga.reasons:
                for branch in choice.branches:
                    yield Act("attest branch", name, path, branch.name)

    def _without_executes(self, net: int, path: str) -> int:
        """Let every EXECUTE of an activation expire: no participant starts it any more."""
        kept = tuple(
            number
            for number in self.nets.values[net]
            if not (
                isinstance(message := self.messages.values[number], Command)
                and message.path == path
                and message.channel == "E"
            )
        )
        return self.nets(kept)

    def _mend(self, parts: int, path: str) -> int:
        """An operator who attests a success makes the participant's record say so too."""
        at = self.paths.index(path)
        now = list(self.parts.values[parts])
        now[at] = now[at]._replace(done="S", asked=0, halted_under=None)
        return self.parts(tuple(now))

    # -- memoised parts -------------------------------------------------------------------------

    def _in_flight(self, net: int) -> list[tuple[int, int, Message]]:
        """Return for each different message what is left without it, its number and itself."""
        found = self._pairs.get(net)
        if found is None:
            flying = self.nets.values[net]
            found = []
            for number in dict.fromkeys(flying):
                left = list(flying)
                left.remove(number)
                found.append((self.nets(tuple(left)), number, self.messages.values[number]))
            self._pairs[net] = found
        return found

    def _add(self, net: int, messages: tuple[Message, ...]) -> tuple[int, ...]:
        """Send; what is more than fits in flight is lost, whichever it is."""
        if not messages:
            return (net,)
        found = self._adds.get((net, messages))
        if found is None:
            new = tuple(self.messages(message) for message in messages)
            flying = tuple(sorted(self.nets.values[net] + new))
            size = min(len(flying), self.scenario.in_flight)
            picked = dict.fromkeys(combinations(flying, size))
            found = self._adds[net, messages] = tuple(self.nets(each) for each in picked)
        return found

    def _reply(self, parts: int, number: int) -> list[tuple[int, Answer | None]]:
        found = self._replies.get((parts, number))
        if found is not None:
            return found
        command = self.messages.values[number]
        if not isinstance(command, Command):
            raise TypeError(command)
        now = self.parts.values[parts]
        at = self.paths.index(command.path)
        found = self._replies[parts, number] = [
            (
                self.parts((*now[:at], part, *now[at + 1 :])),
                Answer(command.path, command.channel, command.attempt, word) if word else None,
            )
            for part, word in self._actors[at].handle(now[at], command)
        ]
        return found

    def _callbacks(self, parts: int) -> list[tuple[int, Answer]]:
        found = self._calls.get(parts)
        if found is None:
            now = self.parts.values[parts]
            found = self._calls[parts] = [
                (self.parts((*now[:at], part, *now[at + 1 :])), answer)
                for at, path in enumerate(self.paths)
                for part, answer in self._actors[at].call_back(path, now[at])
            ]
        return found

    def is_goal(self, state: int) -> bool:
        """Whether a state is an end, or a person has been asked for."""
        saga = self.snapshot(state)
        return saga.status.is_terminal or saga.status is SagaStatus.MANUAL_INTERVENTION
