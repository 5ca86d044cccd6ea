"""Deliberate faults: each departure of engine.md section 11 undone, and one per invariant.

A mutation is a patch of the real engine, or a participant that breaks its promise. The checker
has to find each; `kinds` are the findings that count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from tests.model.clock import NOW
from tests.model.messages import Command
from tests.model.participants import Part, Participant, Reply, Traits
from tests.model.scenarios import define, flow_of, make, parallel, step
from tests.model.world import Scenario

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions import Definition
from sagabus_core.engine import (
    Activation,
    Decision,
    Event,
    ForwardState,
    ResultReceived,
    Snapshot,
    WakeupDelivered,
    converge,
    decide,
    forward,
    table,
)
from sagabus_core.engine.advance import ready_steps
from sagabus_core.engine.answers import _route
from sagabus_core.engine.draft import Draft
from sagabus_core.engine.effects import FactKind, JournalFact
from sagabus_core.engine.frontier import walk_on
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.plan import build_plan, freeze
from sagabus_core.engine.snapshot import Plan
from sagabus_core.engine.table import Move, Profile, forward_move, member_move, profile_of
from sagabus_core.engine.vocabulary import MemberState
from sagabus_core.vocabulary import SagaStatus

__all__ = ["MUTATIONS", "Mutation"]

_ENGINE = "sagabus_core.engine"
_DECIDE = "tests.model.port.decide"
_Decide = Callable[[Definition, Snapshot, Event, int], Decision]


@dataclass(frozen=True)
class Mutation:
    """One fault, where to look for it, and what has to be found."""

    name: str
    scenario: Scenario
    kinds: frozenset[str]
    patches: Callable[[], list[AbstractContextManager[Any]]] = list

    def applied(self) -> ExitStack:
        """Break the engine until the stack is closed."""
        stack = ExitStack()
        for each in self.patches():
            stack.enter_context(each)
        return stack


# -- scenarios, as small as the fault allows ----------------------------------------------------

_YES, _NO, _MAYBE = Traits("S", "S"), Traits("R", "S"), Traits("SR", "S", lazy=False)
_RESOLVED = step(cancellable=False)
PAIR = make("pair", {"a": step(), "b": step()}, {"a": Traits("SU", "SU"), "b": _MAYBE})
TWINS = make(
    "twins", {"a": step(), "b": _RESOLVED}, {"a": _MAYBE, "b": _MAYBE}, flow_of(parallel("a", "b"))
)
HALTED = replace(
    TWINS,
    traits={"a": Traits("SH", "S", lazy=False, callback=False), "b": _MAYBE},
    operations=("retry",),
)
PIVOT = make(
    "pivot",
    {"a": step(), "p": step(kind="pivot"), "r": step(kind="retriable")},
    {"a": _YES, "p": Traits("SU", "S"), "r": Traits("SR", retriable=True)},
)
TRIO = make(
    "trio",
    {"x": step(), "a": step(), "b": _RESOLVED},
    {"x": _YES, "a": _MAYBE, "b": _MAYBE},
    flow_of("x", parallel("a", "b")),
)
LONE = make("lone", {"a": _RESOLVED}, {"a": Traits("SU", "S")})


# -- broken participants ------------------------------------------------------------------------


class Untargeted(Participant):
    """Takes a question about the undo for one about the effect."""

    def resolve_undo(self, part: Part, command: Command) -> Iterator[Reply]:
        yield from self.resolve(part, command)


class UnfencedResolve(Participant):
    """Says REJECTED, and lets a later EXECUTE in."""

    def rejecting(self, part: Part) -> Part:
        return part


class UnfencedCancel(Participant):
    """Confirms, and lets a later EXECUTE in."""

    def fenced(self, part: Part) -> Part:
        return part


class ForgetfulUndo(Participant):
    """Reports an undo that it did not do."""

    def begin_undo(self, part: Part, command: Command) -> Iterator[Reply]:
        yield part, "S"


# -- broken engines -----------------------------------------------------------------------------


def _after(change: Callable[[Snapshot, Event, Decision], Decision]) -> AbstractContextManager[Any]:
    """Change every decision after it was made."""

    def changed(
        definition: Definition, snapshot: Snapshot, event: Event, now_at_ms: int
    ) -> Decision:
        return change(snapshot, event, decide(definition, snapshot, event, now_at_ms))

    return patch(_DECIDE, changed)


def _move(
    profile: Profile, state: ForwardState, given: Input, move: Move
) -> AbstractContextManager[Any]:
    return patch.dict(table.FORWARD[profile], {(state, given): move})


def _forget_abort(_: Snapshot, __: Event, decision: Decision) -> Decision:
    after = decision.snapshot
    waits = any(activation.is_open for activation in after.activations.values())
    if decision.absorbed or not waits or after.abort is None:
        return decision
    return decision._replace(snapshot=after._replace(abort=None))


def _revive(before: Snapshot, _: Event, decision: Decision) -> Decision:
    if decision.absorbed or not before.status.is_terminal:
        return decision
    return decision._replace(snapshot=decision.snapshot._replace(status=SagaStatus.RUNNING))


def _apply_again(before: Snapshot, event: Event, decision: Decision) -> Decision:
    if not decision.absorbed or not isinstance(event, ResultReceived):
        return decision
    fact = JournalFact(FactKind.ANSWER, None, None, None, 0, event.trigger, NOW)
    after = before._replace(next_success=before.next_success + 1, revision=before.revision + 1)
    return Decision(after, (fact,))


def _lose_facts(_: Snapshot, __: Event, decision: Decision) -> Decision:
    kept = {
        path: a if a.is_open else a._replace(answers={})
        for path, a in decision.snapshot.activations.items()
    }
    if decision.absorbed:
        return decision
    return decision._replace(snapshot=decision.snapshot._replace(activations=kept))


def _consume(before: Snapshot, event: Event, decision: Decision) -> Decision:
    """In MANUAL a deadline that passes is used up, and nobody asks again."""
    held = bool(before.reasons) and isinstance(event, WakeupDelivered)
    if not held or decision.absorbed:
        return decision
    after = decision.snapshot
    kept = {
        path: a._replace(deadline_at_ms=None) if a.deadline_at_ms == NOW else a
        for path, a in after.activations.items()
    }
    return decision._replace(snapshot=after._replace(activations=kept))


def _asks_once(track: Any) -> bool:
    fresh = not any(track.attempts.values()) or track.state != "EXECUTING"
    return bool(fresh and _is_idle(track))


def _plan_without_oldest(definition: Definition, view: Any, saga: str, version: int) -> Plan:
    made = _build_plan(definition, view, saga, version)
    return replace(made, members=made.members[:-1])


def _plan_with_rejected(definition: Definition, view: Any, saga: str, version: int) -> Plan:
    made = _build_plan(definition, view, saga, version)
    more = tuple(p for p, a in view.activations.items() if a.state == "REJECTED")
    return replace(made, members=made.members + more)


def _walk_all(nodes: Any, view: Any, steps: list[Any], choices: list[Any]) -> bool:
    """Do not wait for an unfinished child of the root before looking at the next one."""
    children = [child for node in nodes for child in getattr(node, "children", (node,))]
    finished = [walk_on((child,), view, steps, choices) for child in children]
    return all(finished)


def _ready_by_news(draft: Draft) -> tuple[list[Any], bool]:
    """Look behind what has just succeeded only, even if nothing could start for a while."""
    missed = draft.base.revision and draft.ahead == (draft.definition.flow,)
    return ([], False) if missed else ready_steps(draft)


def _ready_soon(draft: Draft) -> tuple[list[Any], bool]:
    done = any(a.state is ForwardState.SUCCEEDED for a in draft.activations.values())
    return ([], True) if done else ready_steps(draft)


def _member_in_hand(draft: Draft) -> str | None:
    path = _running_member(draft)
    started = path is not None and draft.members[path].state is not MemberState.PENDING
    return path if started else None


def _issue_twice(draft: Draft, path: str, track: Any, payload: Any) -> None:
    _issue_one(draft, path, track, payload)
    live = draft.activations if isinstance(track, Activation) else draft.members
    _issue_one(draft, path, live[path], payload)


_is_idle = converge._is_idle
_issue_one = converge._issue_one
_running_member = converge.running_member
_build_plan = build_plan


def _engine(target: str, value: object) -> AbstractContextManager[Any]:
    return patch(f"{_ENGINE}.{target}", value)


def _nothing(*_: object, **__: object) -> None:
    return None


def _any_attempt(draft: Draft, event: ResultReceived, track: Any, answer: Any) -> Move:
    if isinstance(track, Activation):
        profile = profile_of(draft.step(event.activation))
        return forward_move(profile, track.state, answer[1])
    return member_move(track.state, answer[1])


def _current_attempt_only(draft: Draft, event: ResultReceived, track: Any, answer: Any) -> Move:
    if event.attempt != track.attempts.get(answer[0]):
        return Move.NOTE
    return _any_attempt(draft, event, track, answer)


def _any_stay(draft: Draft, event: ResultReceived, track: Any, answer: Any) -> Move:
    if isinstance(track, Activation) or event.attempt != track.attempts.get(answer[0]):
        return _route(draft, event, track, answer)
    return member_move(track.state, answer[1])


def _freeze_at_once(draft: Draft) -> list[Any]:
    if draft.abort is None:
        return _go_forward(draft)
    freeze(draft)
    return []


_go_forward = converge._go_forward
_ALWAYS_ACTIVE = property(lambda draft: not draft.reasons and not draft.terminal)
_NEVER = property(lambda _: False)


def _unsafe() -> Definition:
    """Return a retriable step with no pivot before it, which validation refuses."""
    rules = "sagabus_core.definitions.parse.PivotRules.check"
    with patch(rules, _nothing):
        steps: dict[str, JsonValue] = {"r": step(kind="retriable"), "b": step()}
        return define(steps, flow_of("r", "b"))


def _broken(scenario: Scenario, participant: type[Participant]) -> Scenario:
    return replace(scenario, participant=participant)


def _mutation(
    name: str, scenario: Scenario, kinds: str, *makers: Callable[[], AbstractContextManager[Any]]
) -> Mutation:
    return Mutation(name, scenario, frozenset(kinds.split()), lambda: [m() for m in makers])


_E, _OFF = ForwardState.EXECUTING, ForwardState.CANCELLED
MUTATIONS: tuple[Mutation, ...] = (
    # The departures of section 11, undone.
    _mutation("resolve-without-target", _broken(PAIR, Untargeted), "TRUTH"),
    _mutation("resolve-rejected-unfenced", _broken(LONE, UnfencedResolve), "TRUTH CONFLICT"),
    _mutation("old-hints-count", PAIR, "HINT", lambda: _engine("answers._route", _any_attempt)),
    _mutation(
        "old-facts-do-not", PAIR, "FACT", lambda: _engine("answers._route", _current_attempt_only)
    ),
    _mutation(
        "hints-of-an-earlier-stay-count",
        replace(
            make(
                "stays",
                {"a": _RESOLVED, "b": _RESOLVED},
                {
                    "a": Traits("S", "U", lazy=False, callback=False),
                    "b": Traits("R", lazy=False, callback=False),
                },
            ),
            operations=("pause", "record"),
            loss=False,
            duplicates=0,
        ),
        "HINT",
        lambda: _engine("answers._route", _any_stay),
    ),
    _mutation(
        "halted-settles",
        HALTED,
        "TRUTH",
        lambda: patch.dict(forward._HANDLERS, {Move.HALT: forward._rejected}),
    ),
    _mutation("abort-forgotten", TWINS, "I6 STUCK", lambda: _after(_forget_abort)),
    _mutation(
        "retriable-rejected",
        PIVOT,
        "I4",
        lambda: _move(Profile.RETRIABLE, _E, Input.EXECUTE_REJECTED, Move.SETTLE_REJECTED),
    ),
    _mutation(
        "retriable-cancelled",
        PIVOT,
        "RAISED",
        lambda: _move(Profile.RETRIABLE, _E, Input.ATTEMPT_TIMEOUT, Move.CANCEL),
    ),
    _mutation(
        "retriable-before-pivot",
        Scenario("unsafe", _unsafe(), {"r": Traits("S", retriable=True), "b": _NO}),
        "TRUTH",
    ),
    _mutation(
        "pivot-does-not-revoke",
        replace(PIVOT, deadline=True),
        "I4",
        lambda: _engine("forward.revoke_abort", _nothing),
    ),
    _mutation(
        "deadline-after-pivot",
        replace(PIVOT, deadline=True),
        "I4 RAISED",
        lambda: patch.object(Draft, "pivot_succeeded", _NEVER),
    ),
    _mutation(
        "deadlines-consumed-in-manual",
        HALTED,
        "I6",
        lambda: _after(_consume),
        lambda: _engine("converge._is_idle", _asks_once),
        lambda: _engine("operations._refresh", _nothing),
    ),
    _mutation(
        "fenced-rejected-conflicts",
        make("cancelled", {"a": step()}, {"a": _YES}),
        "CONFLICT",
        lambda: _move(Profile.CANCELLABLE, _OFF, Input.EXECUTE_REJECTED, Move.CONFLICT),
    ),
    _mutation(
        "attested-without-fence",
        replace(LONE, operations=("record",)),
        "TRUTH CONFLICT",
        lambda: _engine("attest._check_negative", _nothing),
    ),
    _mutation(
        "paused-acts",
        replace(PAIR, operations=("pause",)),
        "I9",
        lambda: patch.object(Draft, "active", _ALWAYS_ACTIVE),
    ),
    _mutation(
        "way-forgotten-while-paused",
        replace(PAIR, operations=("pause",)),
        "WAY",
        lambda: _engine("converge.ready_steps", _ready_by_news),
    ),
    # One per invariant.
    _mutation(
        "i1-plan-of-rejected", PAIR, "I1", lambda: _engine("plan.build_plan", _plan_with_rejected)
    ),
    _mutation(
        "i2-freeze-at-once", TRIO, "I2", lambda: _engine("converge._go_forward", _freeze_at_once)
    ),
    _mutation(
        "i3-plan-too-short", PAIR, "I3", lambda: _engine("plan.build_plan", _plan_without_oldest)
    ),
    _mutation("i5-terminal-revives", replace(PAIR, exact=True), "I5", lambda: _after(_revive)),
    _mutation("i6-never-armed", PAIR, "I6", lambda: _engine("decide.arm", _nothing)),
    _mutation("i7-all-at-once", PAIR, "I7", lambda: _engine("advance.walk_on", _walk_all)),
    _mutation("i8-issued-twice", PAIR, "I8", lambda: _engine("converge._issue_one", _issue_twice)),
    _mutation("i13-taken-twice", PAIR, "I13", lambda: _after(_apply_again)),
    _mutation(
        "i11-completed-early", PAIR, "I11", lambda: _engine("converge.ready_steps", _ready_soon)
    ),
    _mutation(
        "i12-compensated-early",
        PAIR,
        "I12",
        lambda: _engine("converge.running_member", _member_in_hand),
        lambda: _engine("converge.is_proved", lambda _: True),
    ),
    _mutation("i14-facts-lost", replace(PAIR, exact=True), "I14", lambda: _after(_lose_facts)),
    # The ground truth, with participants that break their promise, and the way to an end.
    _mutation("cancel-unfenced", _broken(PAIR, UnfencedCancel), "TRUTH CONFLICT"),
    _mutation("undo-not-done", _broken(PAIR, ForgetfulUndo), "TRUTH"),
    _mutation(
        "stuck",
        LONE,
        "STUCK",
        lambda: _engine("decide.arm", _nothing),
        lambda: patch("tests.model.port.violations", lambda *_: []),
    ),
)
