"""The engine's two entry points: pure functions from state and event to state and effects."""

from __future__ import annotations

from typing import Final

from sagabus_core import ids
from sagabus_core.definitions.model import Definition
from sagabus_core.engine.answers import apply_result
from sagabus_core.engine.converge import converge
from sagabus_core.engine.deadlines import arm, fire_due
from sagabus_core.engine.draft import Draft
from sagabus_core.engine.effects import FactKind
from sagabus_core.engine.events import (
    Event,
    ResultReceived,
    StartRequest,
    Sweep,
    Trigger,
    WakeupDelivered,
)
from sagabus_core.engine.finish import finish
from sagabus_core.engine.mapping import check_payload, read_variables
from sagabus_core.engine.operations import apply_operation
from sagabus_core.engine.snapshot import Decision, Snapshot
from sagabus_core.engine.vocabulary import TriggerKind
from sagabus_core.errors import InvalidValue
from sagabus_core.vocabulary import Control, Direction, SagaStatus

__all__ = ["decide", "start"]

_PAUSED: Final = Control.PAUSED
_TIMELY: Final = (WakeupDelivered, Sweep)


def start(definition: Definition, request: StartRequest, now_at_ms: int) -> Decision:
    """Return the first snapshot (revision 1), its first commands and its wake-up.

    For an unknown key only, whose definition may start and whose tenant has room. Raises
    `InvalidValue` (`payload_contract_mismatch`) for a payload that the workflow does not take.
    """
    trigger = Trigger(TriggerKind.START, request.start_id)
    draft = Draft(definition, _blank(definition, request), trigger, now_at_ms)
    contract = definition.input
    if contract is None and request.payload is not None:
        raise InvalidValue("payload_contract_mismatch", "this workflow takes no payload")
    if contract is not None:
        draft.variables = read_variables(
            contract.variables, contract.contract, request.payload, definition.variables
        )
    if request.payload is not None:
        check_payload(request.payload, request.payload.contract)
    draft.fact(FactKind.STARTED, None, None, SagaStatus.RUNNING)
    draft.ahead = (definition.flow,)
    return _conclude(draft)


def decide(definition: Definition, snapshot: Snapshot, event: Event, now_at_ms: int) -> Decision:
    """Return what `event` makes of `snapshot`.

    The same arguments give the same decision. Repeats and stale wake-ups are absorbed. Raises
    `AttemptNeverIssued` for an answer to what was never asked, `OperationRefused` and
    `StaleSnapshot` for operations that do not fit, `IllegalTransition` for a pair of state and
    input that the table does not list; then nothing has happened.
    """
    match event:
        case ResultReceived():
            draft = Draft(definition, snapshot, event.trigger, now_at_ms)
            apply_result(draft, event)
        case WakeupDelivered():
            draft = Draft(definition, snapshot, event.trigger, now_at_ms)
            if event.generation == snapshot.generation:
                _take_wakeup(draft)
        case Sweep():
            draft = Draft(definition, snapshot, event.trigger, now_at_ms)
            # It comes where something stands still: find also what a damaged snapshot has lost.
            draft.ahead = (definition.flow,)
            if snapshot.armed_at_ms is not None and snapshot.armed_at_ms <= now_at_ms:
                _take_wakeup(draft)
        case _:
            draft = Draft(definition, snapshot, event.operation.trigger, now_at_ms)
            apply_operation(draft, event)
    if not draft.facts:
        return Decision(snapshot, ())
    held = snapshot.reasons or snapshot.control is _PAUSED
    if (held or isinstance(event, _TIMELY)) and draft.active:
        fire_due(draft)
    return _conclude(draft)


def _conclude(draft: Draft) -> Decision:
    converge(draft)
    arm(draft)
    return finish(draft)


def _take_wakeup(draft: Draft) -> None:
    """Clear the armed time, whether or not anything may act on the delivery."""
    if draft.armed_at_ms is None:
        return
    draft.early_wakeup = draft.now_at_ms < draft.armed_at_ms
    draft.fact(FactKind.WAKEUP, None, str(draft.generation), None)
    draft.armed_at_ms = None


def _blank(definition: Definition, request: StartRequest) -> Snapshot:
    return Snapshot(
        saga_id=ids.saga_id(request.tenant, definition.workflow, request.business_key),
        tenant=request.tenant,
        workflow=definition.workflow,
        business_key=request.business_key,
        definition_version=definition.version,
        definition_digest=definition.digest,
        revision=0,
        status=SagaStatus.RUNNING,
        control=Control.ACTIVE,
        direction=Direction.FORWARD,
        abort=None,
        deadline_at_ms=request.deadline_at_ms,
        deadline_passed=False,
        variables={},
        activations={},
        members={},
        branches={},
        reasons={},
        payloads={},
        plan=None,
        next_success=1,
        armed_at_ms=None,
        generation=0,
    )
