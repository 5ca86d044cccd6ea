"""The invariants of the engine as functions: the tests, the model checker and chaos share them.

Each takes a `Step` (what was, what was decided, when) and yields one sentence per violation,
beginning with the invariant's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from sagabus_core.definitions.model import Definition, StepKind
from sagabus_core.engine.deadlines import EARLY_REARM_MS, earliest_deadline, live_tracks
from sagabus_core.engine.decide import decide
from sagabus_core.engine.effects import ArmWakeup, FactKind, JournalFact, LifecycleChanged
from sagabus_core.engine.events import Event
from sagabus_core.engine.frontier import frontier, skipped
from sagabus_core.engine.plan import build_plan
from sagabus_core.engine.snapshot import Activation, Decision, Member, Snapshot
from sagabus_core.engine.vocabulary import UNDO_CHANNELS, Channel, ForwardState, MemberState
from sagabus_core.vocabulary import Control, Direction, SagaStatus

__all__ = ["INVARIANTS", "Step", "repeat_violations", "violations"]


@dataclass(frozen=True, slots=True)
class Step:
    """One decision to be judged; `before` is None for a start."""

    definition: Definition
    before: Snapshot | None
    decision: Decision
    now_at_ms: int

    @property
    def after(self) -> Snapshot:
        """The snapshot that was decided."""
        return self.decision.snapshot

    @property
    def attested(self) -> bool:
        """Whether an operator's attestation took part."""
        return any(
            isinstance(effect, JournalFact) and effect.kind is FactKind.ATTESTED
            for effect in self.decision.effects
        )


@dataclass(frozen=True, slots=True)
class _Without:
    activations: Mapping[str, Activation]
    branches: Mapping[str, str]


def violations(
    definition: Definition, before: Snapshot | None, decision: Decision, now_at_ms: int
) -> list[str]:
    """Return every broken invariant of one decision; empty means: safe."""
    step = Step(definition, before, decision, now_at_ms)
    return [sentence for check in INVARIANTS.values() for sentence in check(step)]


def repeat_violations(
    definition: Definition, snapshot: Snapshot, event: Event, now_at_ms: int
) -> list[str]:
    """Return what re-delivering a message that was taken already would change (I10, I13)."""
    again = decide(definition, snapshot, event, now_at_ms)
    return [] if again.absorbed else [f"I13 {event} was applied twice"]


def i1_only_successes_are_undone(step: Step) -> Iterator[str]:
    """COMPENSATE only for a plan member whose forward outcome is SUCCEEDED."""
    plan, activations = step.after.plan, step.after.activations
    for command in step.decision.commands:
        if command.channel not in UNDO_CHANNELS:
            continue
        member = plan is not None and command.activation in plan.members
        if not member or activations[command.activation].state is not ForwardState.SUCCEEDED:
            yield f"I1 {command.phase} for {command.activation}, which is no success of the plan"


def i2_nothing_is_open_behind(step: Step) -> Iterator[str]:
    """No COMPENSATE while anything is open or HALTED forward."""
    undoing = any(c.channel in UNDO_CHANNELS for c in step.decision.commands)
    for path, activation in step.after.activations.items():
        if undoing and (activation.is_open or activation.halted):
            yield f"I2 compensation while {path} is {activation.state}"


def i3_plan_follows_from_facts(step: Step) -> Iterator[str]:
    """Re-derive the frozen plan; it changes only by an operator's override."""
    plan, before = step.after.plan, step.before.plan if step.before else None
    if plan is not None:
        again = build_plan(step.definition, step.after, step.after.saga_id, plan.version)
        if again != plan:
            yield f"I3 the facts make {again.members}, frozen is {plan.members}"
    if before is not None and before != plan and not step.attested:
        yield "I3 the frozen plan changed without an override"


def i4_pivot_excludes_compensation(step: Step) -> Iterator[str]:
    """Never compensate behind a succeeded pivot."""
    for path, activation in step.after.activations.items():
        pivot = step.definition.nodes[path].step.kind is StepKind.PIVOT
        succeeded = pivot and activation.state is ForwardState.SUCCEEDED
        if succeeded and step.after.direction is Direction.COMPENSATING:
            yield f"I4 compensation although pivot {path} has succeeded"


def i5_terminal_is_final(step: Step) -> Iterator[str]:
    """Keep a terminal status, issue nothing, arm nothing."""
    before = step.before
    if before is None or not before.status.is_terminal:
        return
    if step.after.status is not before.status:
        yield f"I5 {before.status} became {step.after.status}"
    if step.decision.commands or any(isinstance(e, ArmWakeup) for e in step.decision.effects):
        yield f"I5 {before.status} still acts"


def i6_everything_is_waited_for(step: Step) -> Iterator[str]:
    """Whatever is open has its own deadline, and the earliest one is covered by a wake-up."""
    after = step.after
    if after.control is Control.PAUSED or after.reasons or after.status.is_terminal:
        return
    live = list(live_tracks(after))
    if not live:
        yield f"I6 {after.status} waits for nothing"
    for path, track in live:
        if track.deadline_at_ms is None and track.retry_at_ms is None:
            yield f"I6 {path} is {track.state} without a deadline or retry-at time"
    earliest = earliest_deadline(after, after.deadline_at_ms)
    covered = max(earliest or 0, step.now_at_ms + EARLY_REARM_MS)
    if earliest is not None and (after.armed_at_ms is None or after.armed_at_ms > covered):
        yield f"I6 the deadline {earliest} is not covered by the armed time {after.armed_at_ms}"


def i7_predecessors_first(step: Step) -> Iterator[str]:
    """EXECUTE only when every predecessor is SUCCEEDED or SKIPPED."""
    after = step.after
    for command in step.decision.commands:
        path = command.activation
        if command.channel is not Channel.EXECUTE:
            continue
        rest = {p: a for p, a in after.activations.items() if p != path}
        ready = frontier(step.definition, _Without(rest, after.branches))
        if path not in {node.path for node in ready}:
            yield f"I7 EXECUTE of {path} before its predecessors succeeded"


_ASKING = {
    Channel.EXECUTE: ForwardState.EXECUTING,
    Channel.CANCEL: ForwardState.CANCELLING,
    Channel.RESOLVE_EXECUTE: ForwardState.RESOLVING,
    Channel.COMPENSATE: MemberState.COMPENSATING,
    Channel.RESOLVE_COMPENSATE: MemberState.RESOLVING,
}


def i8_one_live_command(step: Step) -> Iterator[str]:
    """At most one command per activation is neither answered, expired nor superseded."""
    seen: set[str] = set()
    for command in step.decision.commands:
        path, channel = command.activation, command.channel
        if path in seen:
            yield f"I8 two commands for {path} at once"
        seen.add(path)
        track = _track(step.after, path, channel)
        old = step.before and _track(step.before, path, channel)
        issued = old.attempts.get(channel, 0) if old else 0
        if track is None or not issued + 1 == track.attempts.get(channel) == command.attempt:
            yield f"I8 attempt {command.attempt} of {path} does not follow {issued}"
        elif track.state != _ASKING[channel]:
            yield f"I8 {command.phase} of {path} while it is {track.state}"


def _track(snapshot: Snapshot, path: str, channel: Channel) -> Activation | Member | None:
    if channel in UNDO_CHANNELS:
        return snapshot.members.get(path)
    return snapshot.activations.get(path)


def i9_held_sagas_issue_nothing(step: Step) -> Iterator[str]:
    """PAUSED and MANUAL issue nothing."""
    after = step.after
    if after.control is Control.PAUSED or after.reasons:
        for command in step.decision.commands:
            yield f"I9 {command.phase} of {command.activation} while held"


def i11_completed_is_complete(step: Step) -> Iterator[str]:
    """COMPLETED only if every activation is SUCCEEDED or SKIPPED."""
    if step.after.status is not SagaStatus.COMPLETED:
        return
    out = skipped(step.definition, step.after)
    for path in step.definition.nodes.keys() - out:
        activation = step.after.activations.get(path)
        if activation is None or activation.state is not ForwardState.SUCCEEDED:
            yield f"I11 COMPLETED although {path} did not succeed"


def i12_compensated_is_complete(step: Step) -> Iterator[str]:
    """COMPENSATED only if every plan member is compensated and nothing is open."""
    after = step.after
    if after.status is not SagaStatus.COMPENSATED:
        return
    if any(activation.is_open for activation in after.activations.values()):
        yield "I12 COMPENSATED with something open"
    for path in after.plan.members if after.plan else ():
        if after.members[path].state is not MemberState.COMPENSATED:
            yield f"I12 COMPENSATED although {path} is {after.members[path].state}"


def i14_facts_are_kept(step: Step) -> Iterator[str]:
    """Lose no recorded answer; change a settled outcome only by an attestation."""
    if step.before is None:
        return
    for tracks, kept in (
        (step.before.activations, step.after.activations),
        (step.before.members, step.after.members),
    ):
        yield from _lost(tracks, kept)
    for path, activation in step.before.activations.items():
        moved = step.after.activations[path].state is not activation.state
        if moved and not activation.is_open and not step.attested:
            yield f"I14 the outcome of {path} changed from {activation.state}"


def _lost(
    before: Mapping[str, Activation] | Mapping[str, Member],
    after: Mapping[str, Activation] | Mapping[str, Member],
) -> Iterator[str]:
    recorded = (
        (p, key, text) for p, track in before.items() for key, text in track.answers.items()
    )
    for path, key, letters in recorded:
        if not after[path].answers.get(key, "").startswith(letters):
            yield f"I14 answer {key} of {path} was lost"


def one_change_one_revision(step: Step) -> Iterator[str]:
    """Add one to the revision per change, leave a fact, announce it at most once."""
    before = step.before
    if step.decision.absorbed:
        if before is not step.after:
            yield "REV an absorbed event changed the snapshot"
        return
    kinds = [type(effect) for effect in step.decision.effects]
    expected = before.revision + 1 if before else 1
    if step.after.revision != expected or JournalFact not in kinds:
        yield f"REV revision {step.after.revision} instead of {expected}, or no journal fact"
    if kinds.count(LifecycleChanged) > 1:
        yield "REV more than one lifecycle event"


def what_is_ready_is_issued(step: Step) -> Iterator[str]:
    """Leave nothing that could start: the next decision looks only behind what succeeds then."""
    after = step.after
    if after.status is SagaStatus.RUNNING and after.control is Control.ACTIVE:
        for node in frontier(step.definition, after):
            yield f"WAY {node.path} could start and did not"


def live_ones_are_known(step: Step) -> Iterator[str]:
    """Hand on exactly the open activations, in their order."""
    known = {path: a for path, a in step.after.activations.items() if a.is_open}
    if list(known.items()) != list(step.after.live.items()):
        yield f"LIVE {[*step.after.live]} are handed on as open, {[*known]} are"


INVARIANTS: Mapping[str, Callable[[Step], Iterator[str]]] = {
    "I1": i1_only_successes_are_undone,
    "I2": i2_nothing_is_open_behind,
    "I3": i3_plan_follows_from_facts,
    "I4": i4_pivot_excludes_compensation,
    "I5": i5_terminal_is_final,
    "I6": i6_everything_is_waited_for,
    "I7": i7_predecessors_first,
    "I8": i8_one_live_command,
    "I9": i9_held_sagas_issue_nothing,
    "I11": i11_completed_is_complete,
    "I12": i12_compensated_is_complete,
    "I14": i14_facts_are_kept,
    "WAY": what_is_ready_is_issued,
    "LIVE": live_ones_are_known,
    "REV": one_change_one_revision,
}
"""Every invariant of a single decision; I10 and I13 need the event: `repeat_violations`."""
