"""Breadth first over every reachable state, then backwards from the ends."""

from __future__ import annotations

import gc
import time
from array import array
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from tests.model.world import Scenario, Step, World

from sagabus_core.engine import Snapshot
from sagabus_core.vocabulary import Control

__all__ = ["Finding", "Report", "explore"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of violation, with the shortest trace to its first occurrence."""

    problem: str
    trace: tuple[str, ...]


@dataclass(slots=True)
class Report:
    """What an exploration found. `exhausted`: nothing within the bounds was left out."""

    scenario: str
    states: int = 0
    transitions: int = 0
    snapshots: int = 0
    decisions: int = 0
    depth: int = 0
    seconds: float = 0.0
    exhausted: bool = True
    violations: int = 0
    statuses: dict[str, int] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)

    @property
    def safe(self) -> bool:
        """Whether nothing is wrong."""
        return not self.violations


class _Search:
    def __init__(self, scenario: Scenario, limit: int, *, first: bool) -> None:
        self.world = World(scenario)
        self.report = Report(scenario.name)
        self.limit = limit
        self.first = first
        self.numbers: dict[int, int] = {}
        self.states: list[int] = []
        self.parents = array("l")
        self.targets = array("l")
        self.offsets = array("l", [0])
        self.dead: set[int] = set()

    def run(self) -> Report:
        began = time.process_time()
        gc.disable()  # millions of integers hold no cycles
        for step in self.world.start():
            self._visit(-1, step)
        at = 0
        while at < len(self.states):
            if at not in self.dead:
                for step in self.world.moves(self.states[at]):
                    self._visit(at, step)
            self.offsets.append(len(self.targets))
            at += 1
            if len(self.states) > self.limit or (self.first and self.report.findings):
                self.report.exhausted = False
                break
        if self.report.exhausted:
            self._reach_back()
        gc.enable()
        self._sum_up()
        self.report.seconds = round(time.process_time() - began, 1)
        return self.report

    def _visit(self, parent: int, step: Step) -> None:
        number = self.numbers.get(step.state)
        if number is None:
            number = self.numbers[step.state] = len(self.states)
            self.states.append(step.state)
            self.parents.append(parent)
            untrue = self.world.problems(step.state)
            if untrue:
                self.dead.add(number)  # what follows from a violation is no news
                self._find(parent, step, untrue)
        if step.problems:
            self._find(parent, step, step.problems)
        if parent >= 0:
            self.targets.append(number)

    def _find(self, parent: int, step: Step, problems: tuple[str, ...]) -> None:
        self.report.violations += len(problems)
        for problem in problems:
            kind = problem.split(" ", 1)[0]
            if kind not in self.report.findings:
                trace = (*self._trace(parent), self._line(step))
                self.report.findings[kind] = Finding(problem, trace)

    def _reach_back(self) -> None:
        """Mark what reaches an end, until nothing is added; the rest is stuck."""
        good = bytearray(self.world.is_goal(state) for state in self.states)
        for number in self.dead:
            good[number] = 1
        changed = True
        while changed:
            changed = False
            for at in range(len(good) - 1, -1, -1):
                if not good[at] and any(
                    good[self.targets[edge]]
                    for edge in range(self.offsets[at], self.offsets[at + 1])
                ):
                    good[at] = 1
                    changed = True
        stuck = [at for at in range(len(good)) if not good[at]]
        if stuck:
            self.report.violations += len(stuck)
            problem = f"STUCK {len(stuck)} states reach no terminal or manual state"
            self.report.findings["STUCK"] = Finding(problem, tuple(self._trace(stuck[0])))

    # -- traces ---------------------------------------------------------------------------------

    def _trace(self, number: int) -> list[str]:
        chain: list[int] = []
        while number >= 0:
            chain.append(number)
            number = self.parents[number]
        chain.reverse()
        lines = [self._line(step) for step in self.world.start() if step.state == self.states[0]][
            :1
        ]
        for before, after in pairwise(chain):
            wanted = self.states[after]
            steps = self.world.moves(self.states[before])
            lines.append(self._line(next(step for step in steps if step.state == wanted)))
        return lines

    def _line(self, step: Step) -> str:
        saga = self.world.snapshot(step.state)
        _, parts, net, _ = self.world.unpack(step.state)
        tracks = [f"{path} {track.state}" for path, track in saga.activations.items()]
        tracks += [f"undo {path} {track.state}" for path, track in saga.members.items()]
        flying = [str(self.world.messages.values[n]) for n in self.world.nets.values[net]]
        truth = "".join(p.done + p.undone + " " for p in self.world.parts.values[parts])
        label = " ".join(_say(part) for part in step.label)
        why = f" ({', '.join(saga.reasons.values())})" if saga.reasons else ""
        return (
            f"{label} => {saga.status}{why} [{', '.join(tracks)}] "
            f"truth [{truth.strip()}] in flight [{', '.join(flying)}]"
        )

    def _sum_up(self) -> None:
        report, world = self.report, self.world
        report.states, report.transitions = len(self.states), len(self.targets)
        report.snapshots, report.decisions = len(world.engine.snapshots), world.engine.decisions
        number, depth = len(self.states) - 1, 0
        while number > 0:
            number, depth = self.parents[number], depth + 1
        report.depth = depth
        counts = Counter(_stands(world.snapshot(state)) for state in self.states)
        report.statuses = dict(sorted(counts.items()))


def _stands(saga: Snapshot) -> str:
    held = f"PAUSED {saga.direction} " if saga.control is Control.PAUSED else ""
    return f"{held}{saga.status}"


def _say(part: object) -> str:
    if isinstance(part, tuple):
        return (
            " ".join(f"<{path or kind}.{name} passed>" for kind, path, name in part)
            if (part and isinstance(part[0], tuple) and len(part[0]) == 3)
            else ""
        )
    return "" if part is None else str(part)


def explore(scenario: Scenario, limit: int = 10_000_000, *, first: bool = False) -> Report:
    """Explore a scenario; with `first` stop at the first violation."""
    return _Search(scenario, limit, first=first).run()
