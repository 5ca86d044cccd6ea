"""record_outcome: the only way in which a recorded fact is ever overridden."""

from __future__ import annotations

from typing import Final

from sagabus_core.definitions.model import StepKind
from sagabus_core.engine.advance import choose
from sagabus_core.engine.draft import (
    PLAN_KEY,
    Draft,
    activation_key,
    branch_key,
    member_key,
)
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.events import (
    AttestedBranch,
    AttestedOutcome,
    AttestedOutput,
    AttestedPayload,
    AttestedUndo,
    RecordOutcome,
)
from sagabus_core.engine.forward import apply_move, keep_output
from sagabus_core.engine.inputs import Input
from sagabus_core.engine.mapping import check_payload
from sagabus_core.engine.plan import facts_of, freeze
from sagabus_core.engine.reasons import CONFLICTS
from sagabus_core.engine.snapshot import Activation, evolve
from sagabus_core.engine.table import Move
from sagabus_core.engine.undo import settle_undo, undo_again
from sagabus_core.engine.vocabulary import ForwardState, ManualReason, MemberState
from sagabus_core.errors import InvalidValue, OperationRefused
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import Direction

__all__ = ["record_outcome"]

_SETTLE: Final = {
    ForwardState.SUCCEEDED: Move.SETTLE_SUCCEEDED,
    ForwardState.REJECTED: Move.SETTLE_REJECTED,
    ForwardState.CANCELLED: Move.SETTLE_CANCELLED,
}
_FENCES: Final = frozenset({Input.CANCEL_CONFIRMED, Input.RESOLVED_REJECTED})


def _refuse(detail: str) -> OperationRefused:
    return OperationRefused("precondition_failed", detail)


def record_outcome(draft: Draft, event: RecordOutcome) -> None:
    """Apply an attestation; refused where nothing is in doubt, or where it could be untrue."""
    if not event.evidence.strip():
        raise InvalidValue("evidence_missing", "say what the attestation rests on")
    match event.attestation:
        case AttestedOutcome() as outcome:
            _attest_outcome(draft, outcome, event)
        case AttestedUndo() as undo:
            _attest_undo(draft, undo, event)
        case AttestedBranch() as branch:
            _attest_branch(draft, branch, event)
        case AttestedPayload() as payload:
            _attest_payload(draft, payload, event)
        case AttestedOutput() as output:
            _attest_output(draft, output, event)


def _note(
    draft: Draft, event: RecordOutcome, subject: str, after: str, output: Payload | None = None
) -> None:
    detail = {"evidence": event.evidence}
    draft.fact(FactKind.ATTESTED, subject, None, after, detail, output)


def _attest_outcome(draft: Draft, said: AttestedOutcome, event: RecordOutcome) -> None:
    path = said.activation
    activation = draft.activations.get(path)
    move = _SETTLE.get(said.outcome)
    if move is None:
        raise InvalidValue("invalid_attestation", f"{said.outcome} is no outcome")
    if activation is None:
        raise _refuse(f"activation {path!r} was never issued")
    _check_doubt(draft, path, activation)
    if said.outcome is ForwardState.SUCCEEDED:
        _check_positive(draft, path, activation)
    else:
        _check_negative(draft, path, activation, event.clock_skew_ms)
    _note(draft, event, activation_key(path), said.outcome, said.output)
    drifted = PLAN_KEY in draft.reasons
    draft.clear_reason(activation_key(path))
    draft.clear_reason(PLAN_KEY)
    attested = evolve(activation, attested=True)
    draft.put(path, attested)
    overrides = activation.is_open or _is_yes(activation.state) != _is_yes(said.outcome)
    if overrides:
        apply_move(draft, path, attested, move, said.output)
    elif said.output is not None and draft.abort is None:
        keep_output(draft, path, said.output)
    if draft.direction is Direction.COMPENSATING and (overrides or drifted):
        freeze(draft)


def _is_yes(state: ForwardState) -> bool:
    return state is ForwardState.SUCCEEDED


def _check_doubt(draft: Draft, path: str, activation: Activation) -> None:
    conflict = draft.reasons.get(activation_key(path)) in CONFLICTS
    if not (activation.is_open or conflict or PLAN_KEY in draft.reasons):
        raise _refuse(f"the outcome of {path!r} is not in doubt: {activation.state}")


def _check_positive(draft: Draft, path: str, activation: Activation) -> None:
    """Refuse to make a pivot succeed once the undoing has begun: its success means forward only."""
    pivot = draft.step(path).kind is StepKind.PIVOT
    turned = draft.direction is Direction.COMPENSATING and not _is_yes(activation.state)
    if pivot and turned:
        raise _refuse("compensation has begun: the pivot's success cannot stand any more")


def _check_negative(draft: Draft, path: str, activation: Activation, skew_ms: int) -> None:
    """Refuse a 'no' while an EXECUTE can still start, or where a 'yes' was built upon."""
    step = draft.step(path)
    if step.retriable:
        raise _refuse(f"{path!r} is retriable: it can only have succeeded, or be retried")
    if draft.pivot_succeeded and not _is_last_stand(draft, path):
        raise _refuse("a pivot has succeeded: what stands before it can only have succeeded")
    fenced = bool(facts_of(activation) & _FENCES)
    expired = draft.now_at_ms > activation.execute_expires_at_ms + skew_ms
    if not (fenced or expired):
        raise _refuse(f"an EXECUTE of {path!r} can still start: wait until it has expired")


def _is_last_stand(draft: Draft, path: str) -> bool:
    """Whether `path` is the succeeded pivot itself, and nothing behind it was issued."""
    behind = any(draft.step(each).retriable for each in draft.activations)
    return draft.step(path).kind is StepKind.PIVOT and not behind


def _attest_undo(draft: Draft, said: AttestedUndo, event: RecordOutcome) -> None:
    path = said.activation
    member = draft.members.get(path)
    running = member and member.state in {MemberState.COMPENSATING, MemberState.RESOLVING}
    if member is None or not running or path not in (draft.plan.members if draft.plan else ()):
        raise _refuse(f"no undo of {path!r} is in doubt")
    _note(draft, event, member_key(path), "happened" if said.happened else "did not happen")
    draft.clear_reason(member_key(path))
    if said.happened:
        settle_undo(draft, path, evolve(member, attested=True))
    else:
        undo_again(draft, path, evolve(member, used=0))


def _attest_branch(draft: Draft, said: AttestedBranch, event: RecordOutcome) -> None:
    key = branch_key(said.choice)
    if draft.reasons.get(key) is not ManualReason.CONDITION_ERROR:
        raise _refuse(f"the branch of {said.choice!r} is not in doubt")
    choice = draft.definition.choices[said.choice]
    if said.branch not in {branch.name for branch in choice.branches}:
        raise _refuse(f"choice {said.choice!r} has no branch {said.branch!r}")
    _note(draft, event, key, said.branch)
    draft.clear_reason(key)
    choose(draft, choice, said.branch)


def _attest_payload(draft: Draft, said: AttestedPayload, event: RecordOutcome) -> None:
    key = activation_key(said.activation)
    if draft.reasons.get(key) is not ManualReason.COMMAND_PAYLOAD_INVALID:
        raise _refuse(f"the payload of {said.activation!r} is not in doubt")
    check_payload(said.payload, draft.step(said.activation).payload)
    _note(draft, event, key, "payload", said.payload)
    draft.payloads = {**draft.payloads, said.activation: said.payload}
    draft.clear_reason(key)


def _attest_output(draft: Draft, said: AttestedOutput, event: RecordOutcome) -> None:
    key = activation_key(said.activation)
    if draft.reasons.get(key) is not ManualReason.OUTPUT_CONTRACT_MISMATCH:
        raise _refuse(f"the output of {said.activation!r} is not in doubt")
    _note(draft, event, key, "output", said.output)
    draft.clear_reason(key)
    keep_output(draft, said.activation, said.output)
    if key in draft.reasons:
        raise _refuse(f"the attested output does not fit the contract of {said.activation!r}")
