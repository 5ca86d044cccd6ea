"""What came out of a saga, from its snapshot and definition alone."""

from __future__ import annotations

from sagabus_core.definitions import Definition
from sagabus_core.engine import Snapshot
from sagabus_core.engine.mapping import build_payload
from sagabus_core.errors import InvalidValue
from sagabus_core.payload import Payload
from sagabus_core.vocabulary import SagaStatus

__all__ = ["output_of", "reason_of"]


def reason_of(saga: Snapshot) -> str | None:
    """Return why a saga needs a person or turned back, as its last lifecycle event said it."""
    if saga.reasons:
        return next(iter(saga.reasons.values())).value
    return saga.abort.reason if saga.abort else None


def output_of(saga: Snapshot, definition: Definition) -> Payload | None:
    """Return the declared output of a completed saga, as its last lifecycle event carried it."""
    declared = definition.output
    if saga.status is not SagaStatus.COMPLETED or declared is None:
        return None
    try:
        return build_payload(declared.fields, declared.contract, saga.variables)
    except InvalidValue:
        return None  # beyond the limit: the event left it out too
