"""The workspace of one decision: a private, mutable copy that becomes the next snapshot.

Nothing outside one call of `decide` ever sees a draft, so the engine stays a pure function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sagabus_core.canonical import JsonValue
from sagabus_core.definitions.model import Definition, Node, StepDefinition, StepKind
from sagabus_core.engine.effects import Effect, FactKind, JournalFact, Metric, MetricName
from sagabus_core.engine.events import Trigger
from sagabus_core.engine.reasons import CONFLICTS
from sagabus_core.engine.records import make
from sagabus_core.engine.snapshot import (
    OPEN_STATES,
    Activation,
    Member,
    Snapshot,
    Track,
    evolve,
)
from sagabus_core.engine.table import STATUS
from sagabus_core.engine.vocabulary import ForwardState, ManualReason
from sagabus_core.errors import IllegalTransition
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Control, SagaStatus

__all__ = ["PLAN_KEY", "Draft", "activation_key", "branch_key", "member_key", "reason_key"]

_TERMINAL = frozenset(status for status, following in STATUS.items() if not following)
_RUNNING: Final = SagaStatus.RUNNING
_ACTIVE: Final = Control.ACTIVE
_STATE: Final = FactKind.STATE

PLAN_KEY = "plan"
"""Key of a reason that concerns the plan as a whole."""


def activation_key(path: str) -> str:
    """Return the key of the manual reason of an activation."""
    return f"activation:{path}"


def member_key(path: str) -> str:
    """Return the key of the manual reason of a plan member."""
    return f"member:{path}"


def branch_key(path: str) -> str:
    """Return the key of the manual reason of a choice."""
    return f"branch:{path}"


def reason_key(path: str, track: Track) -> str:
    """Return the key of the manual reason of a track."""
    return f"activation:{path}" if isinstance(track, Activation) else f"member:{path}"


class Draft:
    """A snapshot in the making, with the effects so far.

    `facts` counts the journal facts among them: every change leaves one. `ahead` are the nodes of
    the flow to look at for what may start; None if nothing can have become ready.
    """

    __slots__ = (
        "abort",
        "activations",
        "ahead",
        "armed_at_ms",
        "base",
        "branches",
        "control",
        "deadline_passed",
        "deadline_told",
        "definition",
        "direction",
        "early_wakeup",
        "effects",
        "facts",
        "generation",
        "live",
        "members",
        "next_success",
        "now_at_ms",
        "payloads",
        "plan",
        "reasons",
        "status",
        "trigger",
        "variables",
    )

    def __init__(
        self, definition: Definition, base: Snapshot, trigger: Trigger, now_at_ms: int
    ) -> None:
        self.definition = definition
        self.base = base
        self.trigger, self.now_at_ms = trigger, now_at_ms
        self.status = base.status
        self.control = base.control
        self.direction = base.direction
        self.abort = base.abort
        self.deadline_passed = base.deadline_passed
        self.variables: Mapping[str, JsonValue] = base.variables
        self.activations = dict(base.activations)
        self.live = dict(base.live)
        self.members: Mapping[str, Member] = base.members
        self.branches: Mapping[str, str] = base.branches
        self.reasons: Mapping[str, ManualReason] = base.reasons
        self.payloads: Mapping[str, Payload] = base.payloads
        self.plan = base.plan
        self.next_success = base.next_success
        self.armed_at_ms = base.armed_at_ms
        self.generation = base.generation
        # What runs and is not held has issued whatever was ready: only news can open the way.
        at_rest = self.status is _RUNNING and self.control is _ACTIVE
        self.ahead: tuple[Node, ...] | None = None if at_rest else (definition.flow,)
        self.early_wakeup = self.deadline_told = False
        self.effects: list[Effect] = []
        self.facts = 0

    @property
    def active(self) -> bool:
        """Whether the engine may act: ACTIVE, not terminal, and no person is asked for."""
        return self.control is _ACTIVE and not self.reasons and self.status not in _TERMINAL

    @property
    def terminal(self) -> bool:
        """Whether nothing can change any more."""
        return self.status in _TERMINAL

    @property
    def pivot_succeeded(self) -> bool:
        """Whether the point of no return has been passed."""
        return any(
            activation.state is ForwardState.SUCCEEDED and self.step(path).kind is StepKind.PIVOT
            for path, activation in self.activations.items()
        )

    def step(self, path: str) -> StepDefinition:
        """Return the step of an activation."""
        return self.definition.nodes[path].step

    def fact(
        self,
        kind: FactKind,
        subject: str | None,
        before: str | None,
        after: str | None,
        detail: Mapping[str, JsonValue] | None = None,
        output: Payload | None = None,
    ) -> None:
        """Journal a change; one without any fact would be lost."""
        ordinal = self.facts
        self.facts = ordinal + 1
        # fmt: off
        self.effects.append(make(JournalFact, (
            kind, subject, before, after, ordinal, self.trigger, self.now_at_ms, detail, output,
        )))
        # fmt: on

    def metric(self, name: MetricName, label: str) -> None:
        """Raise a counter."""
        self.effects.append(Metric(name, label))

    def open_way(self, path: str) -> None:
        """Look behind a step that has just succeeded (and at the whole flow after a second one)."""
        flow = self.definition
        self.ahead = flow.behind[path] if self.ahead is None else (flow.flow,)

    def put(self, path: str, track: Track) -> None:
        """Keep a changed track."""
        if not isinstance(track, Activation):
            self.members = {**self.members, path: track}
            return
        self.activations[path] = track
        if track.state in OPEN_STATES:
            self.live[path] = track
        else:
            self.live.pop(path, None)

    def change(self, path: str, track: Track, **changes: object) -> None:
        """Keep `track` with some fields changed; a change of state is journalled."""
        self.replace(path, track, evolve(track, **changes))

    def replace(self, path: str, track: Track, after: Track) -> None:
        """Keep `after` instead of `track`; a change of state is journalled."""
        self.put(path, after)
        if after.state is not track.state:
            self.fact(_STATE, reason_key(path, track), track.state, after.state)

    def set_reason(self, key: str, reason: ManualReason) -> None:
        """Ask for a person. The first reason of a subject stays, but a conflict outweighs it."""
        present = self.reasons.get(key)
        if present is None or (reason in CONFLICTS and present not in CONFLICTS):
            self.reasons = {**self.reasons, key: reason}
            self.fact(FactKind.REASON, key, present, reason)

    def clear_reason(self, key: str) -> None:
        """Take a reason back, if there is one."""
        present = self.reasons.get(key)
        if present is not None:
            self.reasons = {k: reason for k, reason in self.reasons.items() if k != key}
            self.fact(FactKind.REASON, key, present, None)

    def set_status(self, status: SagaStatus) -> None:
        """Go to a status that may follow the present one; the same one is no change."""
        if status is self.status:
            return
        if status not in STATUS[self.status]:
            raise IllegalTransition("illegal_transition", f"{self.status} never becomes {status}")
        self.fact(FactKind.STATUS, None, self.status, status)
        self.status = status
