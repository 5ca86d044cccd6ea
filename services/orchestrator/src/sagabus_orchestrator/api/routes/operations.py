"""Management operations on one saga."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeAlias

from sagabus_core.engine import (
    Cancel,
    ManagementEvent,
    ManualClose,
    Operation,
    OperationKind,
    Pause,
    RecordOutcome,
    Resume,
    Retry,
)
from sagabus_orchestrator.api.attestations import attested
from sagabus_orchestrator.api.backend import Backend
from sagabus_orchestrator.api.documentation import refusals
from sagabus_orchestrator.api.identity import (
    ENGINE_PERMISSIONS,
    OPERATION_PERMISSIONS,
    PermissionDenied,
    Principal,
)
from sagabus_orchestrator.api.models.fields import SagaId
from sagabus_orchestrator.api.models.operations import (
    OperationAnswer,
    OperationQuestion,
    RecordOutcomeQuestion,
)
from sagabus_orchestrator.api.routing import Caller, Services, new_router, permitted

__all__ = ["router"]

router = new_router("operations")

Build: TypeAlias = Callable[[Operation], ManagementEvent]
_REFUSALS = refusals(404, 409, 412, 422, 429)


@router.post("/sagas/{saga_id}/pause", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.PAUSE])
async def pause(
    saga_id: SagaId, question: OperationQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Hold a saga: nothing is issued, deadlines stand still until `resume`."""
    return await _perform(services, caller, saga_id, question, Pause)


@router.post("/sagas/{saga_id}/resume", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.RESUME])
async def resume(
    saga_id: SagaId, question: OperationQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Let a paused saga go on: what came meanwhile is applied first."""
    return await _perform(services, caller, saga_id, question, Resume)


@router.post("/sagas/{saga_id}/cancel", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.CANCEL])
async def cancel(
    saga_id: SagaId, question: OperationQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Turn a saga back, as long as no pivot has succeeded."""
    return await _perform(services, caller, saga_id, question, Cancel)


@router.post("/sagas/{saga_id}/retry", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.RETRY])
async def retry(
    saga_id: SagaId, question: OperationQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Issue again what is open in a saga that needs a person, with fresh budgets.

    Takes the permission for each thing that is issued again: steps, resolutions, compensations.
    """
    return await _perform(services, caller, saga_id, question, Retry)


@router.post("/sagas/{saga_id}/record-outcome", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.RECORD_OUTCOME])
async def record_outcome(
    saga_id: SagaId, question: RecordOutcomeQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Attest an outcome in a saga that needs a person; then the engine decides again."""
    attestation = attested(question.attestation)

    def build(operation: Operation) -> ManagementEvent:
        return RecordOutcome(operation, attestation, question.evidence)

    return await _perform(services, caller, saga_id, question, build)


@router.post("/sagas/{saga_id}/close", response_model=OperationAnswer, responses=_REFUSALS)
@permitted(*OPERATION_PERMISSIONS[OperationKind.MANUAL_CLOSE])
async def close(
    saga_id: SagaId, question: OperationQuestion, caller: Caller, services: Services
) -> OperationAnswer:
    """Close a saga by hand without claiming a result; off unless the deployment allows it."""
    return await _perform(services, caller, saga_id, question, ManualClose)


async def _perform(
    services: Backend, caller: Principal, saga_id: str, question: OperationQuestion, build: Build
) -> OperationAnswer:
    operation_id = question.operation_id or str(uuid.uuid4())
    operation = Operation(operation_id, caller.actor, question.reason, question.expected_revision)
    event = build(operation)
    tenant = (await services.saga(caller, saga_id)).summary.tenant

    def permit(names: frozenset[str]) -> None:
        try:
            for name in sorted(names):
                caller.require(ENGINE_PERMISSIONS[name])
        except PermissionDenied as error:
            error.recorded = True  # by the operation itself; a dry run writes nothing
            raise

    if question.dry_run:
        seen = await services.operations.dry_run(tenant, saga_id, event, permit)
        return OperationAnswer.foreseen(saga_id, event, seen)
    done = await services.operations.perform(tenant, saga_id, event, permit)
    return OperationAnswer.done(event, done)
